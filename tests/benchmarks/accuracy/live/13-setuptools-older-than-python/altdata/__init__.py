import pkg_resources

NAMES = pkg_resources.resource_listdir(__name__, ".")
