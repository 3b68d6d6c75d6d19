"""THE COMMAND LINE: ``watersmeet demo``. No other folder imports it."""
