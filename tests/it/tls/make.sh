#!/bin/sh
# Makes the certificates of the TLS tests anew, with OpenSSL 3. One key is everybody's; those of the two
# authorities are thrown away.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

authority() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 36500 \
        -subj "/CN=terret-ws test $1" -keyout "$work/$1.key" -out "$1.pem"
}

# NAME SUBJECT_ALT_NAMES NOT_BEFORE NOT_AFTER
server() {
    openssl req -new -key key.pem -subj "/CN=terret-ws test $1" -out "$work/$1.csr"
    echo "subjectAltName = $2" >"$work/$1.ext"
    openssl ca -batch -notext -config "$work/ca.cnf" -cert authority.pem \
        -keyfile "$work/authority.key" -extfile "$work/$1.ext" -startdate "$3" -enddate "$4" \
        -in "$work/$1.csr" -out "$1.pem"
}

: >"$work/index.txt"
cat >"$work/ca.cnf" <<END
[ca]
default_ca = here
[here]
database = $work/index.txt
new_certs_dir = $work
rand_serial = yes
default_md = sha256
policy = any
[any]
commonName = supplied
END

openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem
authority authority
authority stranger
here='DNS:localhost, IP:127.0.0.1, IP:::1'
server good "$here" 20200101000000Z 21200101000000Z
server expired "$here" 20000101000000Z 20010101000000Z
server early "$here" 21100101000000Z 21200101000000Z
server elsewhere 'DNS:elsewhere.test' 20200101000000Z 21200101000000Z
