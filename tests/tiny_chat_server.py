"""A chat model of random weights with a real tokenizer, made and served here by transformers, on a CPU or a GPU.

    python tests/tiny_chat_server.py make FOLDER TEXT_FILE
    python tests/tiny_chat_server.py serve FOLDER PORT cpu|cuda

Replies are the most probable tokens, one after another (greedy decoding, in 32 bits), so that two devices can be
compared. A reply is held to a regular expression if the request asks for one, as vLLM does it.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def make(folder: Path, text: Path) -> None:
    """Train a byte-level tokenizer of 600 tokens on a text, and put two layers of random weights behind it."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    own = Tokenizer(models.BPE())
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = decoders.ByteLevel()
    special = ["<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    own.train([str(text)], trainers.BpeTrainer(vocab_size=600, special_tokens=special, initial_alphabet=alphabet))
    end = special[0]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=own, eos_token=end, pad_token=end)
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(0)
    size = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
    wide = 0.3  # so that replies depend on the prompt
    config = LlamaConfig(vocab_size=len(tokenizer), initializer_range=wide, max_position_embeddings=4096, **size)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


class Model:
    """A model on a device; it draws one reply at a time."""

    def __init__(self, folder: str, device: str) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32").to(device).eval()
        self._device, self._end = device, self._tokenizer.eos_token_id
        self._pieces = [self._tokenizer.decode([token]) for token in range(len(self._tokenizer))]
        self._lock = threading.Lock()

    def reply(self, messages: list[dict[str, str]], most: int, pattern: str | None) -> tuple[str, str, int, int]:
        """Return text, finish reason, and the numbers of tokens of the prompt and of the reply."""
        import torch

        prompt = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        given = self._tokenizer(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"].to(self._device)
        n_prompt, tokens, cache = given.shape[1], list[int](), None
        with self._lock, torch.inference_mode():
            while len(tokens) < most:
                output = self._model(given, past_key_values=cache, use_cache=True)
                cache = output.past_key_values
                token = self._choose(output.logits[0, -1], self._tokenizer.decode(tokens), pattern)
                if token == self._end:
                    return self._tokenizer.decode(tokens), "stop", n_prompt, len(tokens)
                tokens.append(token)
                given = torch.tensor([[token]], device=self._device)
        return self._tokenizer.decode(tokens), "length", n_prompt, len(tokens)

    def _choose(self, logits: Any, text: str, pattern: str | None) -> int:
        """Return the most probable token, of those after which the text can still become one of the pattern."""
        if pattern is None:
            return int(logits.argmax())
        import regex

        whole = regex.fullmatch(pattern, text) is not None
        for token in logits.argsort(descending=True).tolist():
            if token == self._end:
                if whole:
                    return self._end
            elif self._pieces[token] and regex.fullmatch(pattern, text + self._pieces[token], partial=True):
                return token
        return self._end


def serve(folder: str, port: int, device: str) -> None:
    """Serve the model under the name ``tiny`` until the process is ended."""
    model = Model(folder, device)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send({"data": [{"id": "tiny", "max_model_len": 4096}]} if self.path == "/v1/models" else {})

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            pattern = request.get("structured_outputs", {}).get("regex")
            text, reason, prompt, own = model.reply(request["messages"], request["max_tokens"], pattern)
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
            self._send({"choices": [choice], "usage": {"prompt_tokens": prompt, "completion_tokens": own}})

        def _send(self, content: object) -> None:
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", target, text]:
            make(Path(target), Path(text))
        case ["serve", source, number, device]:
            serve(source, int(number), device)
        case _:
            sys.exit(__doc__)
