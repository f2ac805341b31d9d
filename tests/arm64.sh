#!/usr/bin/env bash
# The kernels and the state on arm64: tests/arm64.sh, as root on Debian 12, x86-64.
#
# Cross-compiles the kernels, runs their tests in an arm64 system of Debian's under qemu-user, and
# exchanges state folders: each machine reads what the other wrote. Needs .venv as CONTRIBUTING.md
# makes it. Nothing is configured in the arm64 system: its packages are only unpacked.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
work=${1:-$(mktemp -d)}
root=$work/root

apt-get install -y -qq --no-install-recommends \
  debootstrap qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross >/dev/null
if [ ! -e /proc/sys/fs/binfmt_misc/register ]; then
  mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
fi
if [ ! -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ]; then
  cat /usr/lib/binfmt.d/qemu-aarch64.conf >/proc/sys/fs/binfmt_misc/register
fi

debootstrap --arch=arm64 --foreign --variant=minbase --include=python3,libpython3.11-dev \
  bookworm "$root" >/dev/null
for package in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb --extract "$package" "$root"; done

# Wheels of arm64 that pip of this machine unpacks beside the project.
project=$root/project
mkdir -p "$project"
cp -r pyproject.toml scrapy_neardup tests "$project"
rm -f "$project"/scrapy_neardup/kernels/native/*.so
.venv/bin/pip install --quiet --target "$root/wheels" --only-binary=:all: --python-version 3.11 \
  --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 \
  --platform manylinux2014_aarch64 numpy scrapy w3lib mmh3 publicsuffixlist pytest hypothesis \
  pytest-xdist

native=scrapy_neardup/kernels/native
"$python" -m pip install --quiet 'cython>=3.3'
compile() { # NAME: the C file of an area, or of Cython's own code, to a module of the limited API
  aarch64-linux-gnu-gcc -O3 -DNDEBUG -std=gnu11 -ffp-contract=off -fPIC -shared -pthread \
    -DPy_LIMITED_API=0x030b0000 -I"$native" \
    -I"$root/usr/include/python3.11" -I"$root/usr/include" -idirafter "$root/usr/include/aarch64-linux-gnu" \
    "$work/$1.c" -o "$project/$native/$1.abi3.so"
}
"$python" -m cython --generate-shared "$work/_cyutility.c"
compile _cyutility
for source in "$native"/*.pyx; do
  area=$(basename "$source" .pyx)
  "$python" -m cython --shared scrapy_neardup.kernels.native._cyutility \
    --module-name "scrapy_neardup.kernels.native.$area" "$source" --output-file "$work/$area.c"
  compile "$area"
done

arm64() {
  chroot "$root" env -C /project PYTHONPATH=/project:/wheels NEARDUP_KERNELS=native \
    NEARDUP_REQUIRE_NATIVE=1 PYTHONDONTWRITEBYTECODE=1 "$@"
}
arm64 python3 -m tests.exchanged write /arm64 | tee "$work/arm64"
"$python" -m tests.exchanged write "$root/x86-64" | tee "$work/x86-64"
cmp "$work/arm64" "$work/x86-64" # the same fingerprints and sketches
"$python" -m tests.exchanged read "$root/arm64"
arm64 python3 -m tests.exchanged read /x86-64
echo "arm64: $(arm64 uname -m) and $(uname -m) read each other's states"

# Half an hour: each instruction is translated.
arm64 python3 -m pytest -p no:cacheprovider -k "not avx and not numpy" tests/test_kernels*.py
