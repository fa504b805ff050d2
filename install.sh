#!/bin/sh
# Installs Ingot for one user, without root: the program, its manual pages and its shell completions.
#
#   curl -fsSL https://raw.githubusercontent.com/ingot-run/ingot/main/install.sh | sh
#   curl -fsSL https://raw.githubusercontent.com/ingot-run/ingot/main/install.sh | sh -s -- --prefix /opt/ingot --version v0.1.0
#
# INGOT_RELEASES is the URL of a mirror of the releases, with the same paths as on GitHub.
set -eu

usage() {
	cat <<'TEXT'
Installs Ingot: the program, its manual pages and its shell completions.

  --prefix FOLDER    install below FOLDER (default ~/.local)
  --version VERSION  install VERSION, such as v0.1.0 (default the latest)
TEXT
}

fail() {
	printf 'install.sh: %s\n' "$*" >&2
	exit 1
}

# platform prints the end of the archive's name, such as linux_amd64.
platform() {
	case $(uname -s) in
	Linux) os=linux ;;
	Darwin) os=darwin ;;
	*) fail "Ingot runs on Linux and macOS, and this is $(uname -s)" ;;
	esac
	case $(uname -m) in
	x86_64 | amd64) arch=amd64 ;;
	arm64 | aarch64) arch=arm64 ;;
	*) fail "there is no release for processors of type $(uname -m)" ;;
	esac
	if [ "$os" = darwin ] && [ "$arch" = amd64 ]; then
		# A shell under Rosetta reports Apple silicon as an Intel processor.
		[ "$(sysctl -n hw.optional.arm64 2>/dev/null)" = 1 ] || fail "there is no release for Macs with Intel processors"
		arch=arm64
	fi
	printf '%s_%s\n' "$os" "$arch"
}

# download URL FILE
download() {
	if command -v curl >/dev/null 2>&1; then
		curl -fsSL --retry 3 -o "$2" "$1"
	elif command -v wget >/dev/null 2>&1; then
		wget -q -O "$2" "$1"
	else
		fail "neither curl nor wget is installed: install one of them"
	fi
}

# checksum FILE prints the SHA-256 of a file.
checksum() {
	if command -v sha256sum >/dev/null 2>&1; then
		sum=$(sha256sum "$1")
	elif command -v shasum >/dev/null 2>&1; then
		sum=$(shasum -a 256 "$1")
	else
		fail "neither sha256sum nor shasum is installed, so the download cannot be checked: install one of them"
	fi
	printf '%s\n' "${sum%% *}"
}

# The shell reads a function to its end before it runs it. So a script of which only a part arrives does nothing.
main() {
	prefix=${HOME:?is not set}/.local
	version=
	while [ $# -gt 0 ]; do
		case $1 in
		--prefix | --version)
			[ $# -gt 1 ] || fail "$1 needs a value"
			if [ "$1" = --prefix ]; then prefix=$2; else version=v${2#v}; fi
			shift 2
			;;
		-h | --help)
			usage
			exit
			;;
		*) fail "unknown argument $1; see --help" ;;
		esac
	done

	releases=${INGOT_RELEASES:-https://github.com/ingot-run/ingot/releases}
	if [ -n "$version" ]; then from=$releases/download/$version; else from=$releases/latest/download; fi
	platform=$(platform)
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 130' INT TERM

	download "$from/checksums.txt" "$work/checksums.txt" ||
		fail "$from/checksums.txt cannot be downloaded: check the connection${version:+, and that version $version exists}"
	# Each line has a checksum and a file name.
	line=$(grep -E "^[0-9a-f]{64}  ingot_[0-9A-Za-z.+-]+_$platform\.tar\.gz\$" "$work/checksums.txt") ||
		fail "$from/checksums.txt has no archive for $platform"
	want=${line%% *}
	archive=${line##* }
	version=${archive#ingot_}
	version=v${version%_"$platform".tar.gz}

	from=$releases/download/$version # not "latest", which may be another version by now
	download "$from/$archive" "$work/$archive" || fail "$from/$archive cannot be downloaded: check the connection, and try again"
	got=$(checksum "$work/$archive")
	[ "$got" = "$want" ] || fail "$archive has the SHA-256 $got, and checksums.txt has $want: nothing was installed; try again"

	mkdir "$work/ingot"
	tar -xzf "$work/$archive" -C "$work/ingot" || fail "$archive cannot be unpacked"

	mkdir -p "$prefix/bin" "$prefix/share" || fail "folders cannot be made below $prefix: choose another with --prefix"
	# The new program is written to a new file and then renamed, since the old one may be running.
	new=$prefix/bin/.ingot.new
	trap 'rm -rf "$work" "$new"' EXIT
	cp "$work/ingot/ingot" "$new" || fail "$prefix/bin cannot be written to: choose another folder with --prefix"
	"$new" --version >/dev/null ||
		fail "the program does not start on this system, and was not installed; on Linux it needs glibc, which Alpine does not have"
	mv -f "$new" "$prefix/bin/ingot" || fail "$prefix/bin/ingot cannot be replaced: choose another folder with --prefix"
	cp -R "$work/ingot/share/." "$prefix/share/" || fail "$prefix/share cannot be written"

	cat <<TEXT
Ingot $version is installed:
  $prefix/bin/ingot
  $prefix/share/man/man1/ingot*.1
  $prefix/share/bash-completion/completions/ingot
  $prefix/share/zsh/site-functions/_ingot
  $prefix/share/fish/vendor_completions.d/ingot.fish
Remove these files to uninstall it.
TEXT
	found=$(command -v ingot || true)
	if [ -z "$found" ]; then
		cat <<TEXT

The shell does not search $prefix/bin for programs yet. Add this line to its profile:
  export PATH="$prefix/bin:\$PATH"
TEXT
	elif [ "$found" != "$prefix/bin/ingot" ]; then
		printf '\nAnother Ingot comes first on the PATH: %s\n' "$found"
	fi
}

main "$@"
