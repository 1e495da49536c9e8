"""The evidence pages: what a run did and proved, for whoever may read its repository.

routes     addresses, answers, headers      signin    GitHub's sign-in, sessions of browsers
viewer     what GitHub lets a viewer read   run_page  one run as a page's values
overview   the operator's page              rendering templates, escaping, time and size words
"""
