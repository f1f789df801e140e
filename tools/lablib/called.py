"""What the lab is called where it is: in these sources, or by its package."""

from pathlib import Path

SOURCES = (Path(__file__).resolve().parents[2] / "CMakeLists.txt").exists()
LAB = "tools/lab" if SOURCES else "twinblock-lab"
INSTALL = "packaging/install-dependencies test" if SOURCES else "apt install etcd-server python3-matplotlib"
BUILD = ("build first (cmake --preset release && cmake --build --preset release), or set TWINBLOCK_BUILD" if SOURCES
         else "install the package twinblock")
