"""What further labels would bring: predicted from the posterior, before any is bought."""
