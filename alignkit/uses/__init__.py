"""What people do with links: projection, phrases, diagnosis, evaluation, other tools' interfaces."""
