# Programs of Debian packages for machines that lack them: unpacked below the build's directory, neither
# installed nor started. To be sourced, with that directory's absolute path in `target`.
debian=$target/debian

debian() { # debian PROGRAM PACKAGE...: leaves the program's path in `program`, or fails
    local name=$1 path=$PATH:/usr/sbin:$debian/usr/sbin:$debian/usr/bin
    shift
    program=$(PATH=$path command -v "$name") && return
    mkdir -p "$debian/packages" && (
        cd "$debian/packages" || exit 1
        # A fresh machine has no lists yet, and only root may fetch them.
        apt-get -qq download "$@" ||
            { apt-get -qq update && apt-get -qq download "$@"; } || exit 1
        for package in *.deb; do dpkg -x "$package" "$debian" || exit 1; done
    ) && program=$(PATH=$path command -v "$name")
}
