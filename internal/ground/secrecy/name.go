package secrecy

import (
	"slices"
	"strings"
	"unicode"
)

// last words of names behind which stands a secret.
var last = map[string]bool{
	"password": true, "passwords": true, "passwd": true, "passwort": true, "pwd": true, "pass": true, "passphrase": true, "passcode": true,
	"secret": true, "secrets": true, "token": true, "tokens": true, "apikey": true, "apitoken": true, "credential": true, "credentials": true, "creds": true,
	"authorization": true, "dsn": true, "connstr": true, "privatekey": true, "secretkey": true, "accesskey": true, "authtoken": true,
	"accesstoken": true, "clientsecret": true, "masterkey": true, "encryptionkey": true, "signingkey": true, "sessionkey": true, "licensekey": true,
	"dbpassword": true, "dbpass": true, "rootpassword": true, "userpassword": true, "kubeconfig": true, "jwt": true, "psk": true, "otp": true, "salt": true,
}

// pairs are the last two words of such names.
var pairs = map[string]bool{
	"private key": true, "secret key": true, "access key": true, "api key": true, "auth key": true, "client key": true, "encryption key": true,
	"signing key": true, "session key": true, "master key": true, "shared key": true, "account key": true, "storage key": true, "license key": true,
	"integration key": true, "service key": true, "deploy key": true, "hmac key": true, "app key": true,
	"application key": true, "admin key": true, "root key": true, "seal key": true, "unseal key": true, "pre shared": true, "preshared key": true,
	"tunnel key": true, "webhook key": true, "ingest key": true, "write key": true, "connection string": true, "conn str": true,
	"kube config": true, "secret string": true, "secret data": true, "secret value": true, "secret binary": true, "password hash": true,
	"hashed password": true, "bcrypt hash": true, "sas url": true, "webhook url": true, "key material": true, "key pem": true,
	"private pem": true, "key base64": true, "password base64": true, "secret base64": true, "token base64": true, "sharedkey primary": true,
	"master auth": true, "basic auth": true, "auth string": true, "auth value": true, "access secret": true, "token value": true, "password value": true,
	"password v": true, "password wo": true, "password plaintext": true, "plaintext value": true, "pass phrase": true,
	"secret old": true, "password old": true, "password new": true,
	"primary secret": true, "key data": true, "raw config": true, "config raw": true, "user data": true,
}

// Name reports whether a secret stands behind a name: of a field, a variable, an option
// or a header. It goes by the name's last words: passwordFile and checksum/secret name
// none.
func Name(name string) bool {
	words := split(name)
	for len(words) > 0 {
		// password2, secret-1.
		end := strings.TrimRight(words[len(words)-1], "0123456789")
		if words = words[:len(words)-1]; end == "" {
			continue
		}
		if len(words) > 0 && pairs[words[len(words)-1]+" "+end] {
			return !hashed(words[:len(words)-1])
		}
		return (last[end] || glued(end)) && !hashed(words)
	}
	return false
}

// glued reports whether a word ends with one that names a secret: PGPASSWORD.
func glued(word string) bool {
	return slices.ContainsFunc([]string{"password", "passwd", "passphrase", "apikey", "secretkey", "privatekey", "authtoken", "apitoken"}, func(end string) bool { return strings.HasSuffix(word, end) })
}

// hashed reports whether words say that what is named is a checksum of a secret, or
// something that everybody may know.
func hashed(words []string) bool {
	for _, word := range words {
		switch word {
		case "checksum", "hash", "digest", "sha", "sha1", "sha256", "sha512", "md5", "fingerprint", "public", "max", "min", "automount", "no", "allow", "require", "disable", "enable", "use", "has", "skip":
			return true
		}
	}
	return false
}

// split a name into words in small letters, at signs and at
// capital letters.
func split(name string) (words []string) {
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			words = append(words, strings.ToLower(word.String()))
			word.Reset()
		}
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
			continue
		case unicode.IsUpper(r) && i > 0:
			small := unicode.IsLower(runes[i-1]) || unicode.IsDigit(runes[i-1])
			next := i+1 < len(runes) && unicode.IsLower(runes[i+1]) && unicode.IsUpper(runes[i-1])
			if small || next {
				end()
			}
		}
		word.WriteRune(r)
	}
	end()
	return words
}
