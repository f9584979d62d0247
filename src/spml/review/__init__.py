"""Review of an audit by people: a local web page, the database of their answers, and the labels they give."""
