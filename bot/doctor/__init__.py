"""`ultracode doctor`: looks at everything the bot needs and says what to do about it."""
