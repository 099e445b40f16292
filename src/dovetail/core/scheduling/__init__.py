"""Where would these pods run, given these nodes and what could be bought?"""
