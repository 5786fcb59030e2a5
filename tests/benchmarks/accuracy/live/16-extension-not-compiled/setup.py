from Cython.Build import cythonize
from setuptools import setup

setup(name="preshed", packages=["preshed"], ext_modules=cythonize("preshed/bloom.pyx"))
