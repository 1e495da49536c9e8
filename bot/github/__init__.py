"""GitHub: the port decisions speak to, the client behind it, what is published, every sentence.

port         Protocols, facts, errors      protection   what branches demand
repository   what is asked of GitHub       publisher    what one run shows
door         a repository's name, pages    run_effects  each shown thing once
access       tokens                        messages     every sentence
client       the one use of githubkit      escape       foreign words made harmless
wire         JSON into facts               marks        how our comments are found again
"""
