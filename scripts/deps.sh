# deps.sh: sourced by scripts that install what they need.
# shellcheck shell=sh

build_packages='build-essential libopenblas-dev libzstd-dev libsodium-dev libjansson-dev'
check_packages='bats mandoc shellcheck strace'
# shellcheck disable=SC2034 # for scripts/demo
demo_packages='bible-kjv gnuplot-nox procps'

# need_packages PACKAGE...: installs those that are missing, or says what to install and fails.
# Systems without dpkg are taken at their word: the build will tell.
need_packages() {
	command -v dpkg-query >/dev/null || return 0
	missing=
	for package; do
		dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
			missing="$missing $package"
	done
	[ -n "$missing" ] || return 0
	if [ "$(id -u)" -eq 0 ]; then
		root=
	elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		root=sudo
	else
		echo "please install:$missing" >&2
		echo "    sudo apt-get install --no-install-recommends$missing" >&2
		return 1
	fi
	echo "installing:$missing" >&2
	# shellcheck disable=SC2086 # words on purpose
	$root env DEBIAN_FRONTEND=noninteractive sh -c '
		apt-get -qq update && apt-get -qq install -y --no-install-recommends "$@"' \
		sh $missing >&2 </dev/null
}
