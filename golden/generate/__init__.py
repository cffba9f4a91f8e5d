"""The oracles of Assay: Python programs that make small models and record what they compute in float64."""
