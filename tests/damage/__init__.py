"""Damage to what is stored: none gives a wrong answer, a foreign exception or a crash."""
