"""What builds the documentation site: a hook for MkDocs, the pictures, and the check of all links (`make docs`)."""
