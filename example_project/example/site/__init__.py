"""The demo site: some 600 pages made from a seed, with the truth about each of them."""
