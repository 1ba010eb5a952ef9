"""Replies per second of a run against those of a bare loop that sends the same requests to the same server.

    python tests/benchmarks/elicitation_throughput.py http://127.0.0.1:8000/v1 MODEL --questions 40 --pairs 3

The two take turns, after one round that only warms the server; what counts is the median of the ratios of the pairs.
"""

import argparse
import asyncio
import statistics
import tempfile
import time

from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from elicitation.chat_engine import ChatEngine
from elicitation.generation import Key, Sampling, request_seed
from elicitation.prompts import Protocol, load_protocol, messages
from elicitation.questions import QuestionSet, load_questions
from elicitation.run import elicit


async def bare_pace(
    url: str, model: str, questions: QuestionSet, protocol: Protocol, sampling: Sampling, concurrency: int
) -> float:
    """Return replies per second of a loop that keeps nothing."""
    waiting = iter([(problem, level) for problem in questions.problems for level in range(len(protocol.levels))])
    own = {"top_k": sampling.top_k, "min_p": sampling.min_p, "repetition_penalty": sampling.repetition_penalty}
    http = DefaultAsyncHttpxClient(trust_env=False)
    async with AsyncOpenAI(base_url=url, api_key="none", timeout=900, http_client=http) as client:

        async def work() -> int:
            done = 0
            for problem, level in waiting:
                await client.chat.completions.create(
                    model=model,
                    messages=messages(protocol, level, problem.question),
                    seed=request_seed(0, Key(problem.problem_id, level, 0, 0)),
                    temperature=sampling.temperature,
                    top_p=sampling.top_p,
                    max_tokens=sampling.max_tokens,
                    extra_body=own,
                )
                done += 1
            return done

        began = time.perf_counter()
        done = sum(await asyncio.gather(*(work() for _ in range(concurrency))))
        return done / (time.perf_counter() - began)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--max-tokens", type=int, default=64)
    asked = parser.parse_args()
    questions, protocol = load_questions(f"arithmetic:{asked.questions}"), load_protocol("steered")
    sampling = Sampling(max_tokens=asked.max_tokens, repairs=0)
    ratios = []
    for pair in range(asked.pairs + 1):
        bare = asyncio.run(bare_pace(asked.url, asked.model, questions, protocol, sampling, asked.concurrency))
        with tempfile.TemporaryDirectory() as folder:
            engine = ChatEngine([asked.url], asked.model)
            run = elicit(questions, protocol, engine, folder, sampling, 0, asked.concurrency)
        ours = run.asked / run.seconds
        if pair:
            ratios.append(ours / bare)
            print(f"run {ours:.2f}, bare loop {bare:.2f} replies a second: ratio {ratios[-1]:.3f}")
    print(f"median ratio of {len(ratios)} pairs: {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
