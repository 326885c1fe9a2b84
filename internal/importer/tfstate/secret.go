package tfstate

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lehr.dev/internal/ground/secrecy"
)

// cleaner copies attributes without what is secret: what is marked as sensitive, what
// its resource's type or its name says is, what looks so, and what was so elsewhere in
// the state.
type cleaner struct {
	kind    string
	secrets *secrecy.Known
	hidden  []string
	// learn: nothing is copied, and what is secret becomes known.
	learn bool
}

// omitted stands for a text that is not copied.
var omitted any = &struct{ left bool }{true}

// clean a value; name is that of the nearest attribute.
func (c *cleaner) clean(value, marks any, at, name string) any {
	switch value := value.(type) {
	case map[string]any:
		marked, _ := marks.(map[string]any)
		result := map[string]any{}
		named, holds := secrecy.PairName(value), secrecy.Holds(value)
		for key, inner := range value {
			path, attribute := key, key
			if at != "" {
				path = at + "." + key
			}
			if named != "" && secrecy.IsValueKey(key) {
				attribute = named
			}
			switch {
			case marked[key] == true, !empty(inner) && (holds(key) || c.holds(at, key) || secrecy.Name(attribute)):
				c.hide(path, inner)
			case !empty(inner) && sounds(attribute):
				// By its sound alone it is not looked for elsewhere.
				c.hidden = append(c.hidden, path)
			default:
				if copied := c.clean(inner, marked[key], path, attribute); copied != omitted {
					result[key] = copied
				}
			}
		}
		return result
	case []any:
		marked, _ := marks.([]any)
		result := []any{}
		for i, inner := range value {
			var mark any
			if i < len(marked) {
				mark = marked[i]
			}
			path := at + "[" + strconv.Itoa(i) + "]"
			if mark == true {
				c.hide(path, inner)
				continue
			}
			if copied := c.clean(inner, mark, path, name); copied != omitted {
				result = append(result, copied)
			}
		}
		return result
	case string:
		if _, ok := secrecy.Field(name, value); ok {
			if c.learn {
				c.secrets.AddFrom(value)
			}
			c.hidden = append(c.hidden, at)
			return omitted
		}
		if !c.learn && c.secrets.In(value) {
			c.hidden = append(c.hidden, at)
			return omitted
		}
	}
	return value
}

func (c *cleaner) hide(path string, value any) {
	c.hidden = append(c.hidden, path)
	if c.learn {
		c.secrets.Add(value)
	}
}

func empty(value any) bool {
	switch value := value.(type) {
	case nil, bool:
		return true
	case string:
		return value == ""
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0
	}
	return false
}

// secretKinds are types of resources that are secrets, or make them, with the
// attributes that hold them.
var secretKinds = []struct {
	kind   *regexp.Regexp
	fields []string
}{
	{regexp.MustCompile(`^random_(password|string)$`), []string{"result", "bcrypt_hash"}},
	{regexp.MustCompile(`^random_bytes$`), []string{"base64", "hex"}},
	{regexp.MustCompile(`^local_sensitive_file$`), []string{"content", "content_base64"}},
	{regexp.MustCompile(`^aws_kms_(ciphertext|secrets?)$`), []string{"plaintext"}},
	{regexp.MustCompile(`(^|_)secrets?(_v[0-9]+)?(_version|_data|_value|_content)?(_v[0-9]+)?$|_secret_version|_secret_`), secretAttributes},
	{regexp.MustCompile(`_(password|passwords|token|tokens|credential|credentials|api_key|api_keys|access_key|apikeys_key|service_account_key|login_profile|cookie|certificate_keystore|key_pair)$`), secretAttributes},
}

// secretAttributes are the attributes of secrets of all clouds.
var secretAttributes = []string{
	"value", "values", "value_wo", "data", "data_json", "data_json_wo", "data_wo", "data_base64", "binary_data", "binary_data_wo", "string_data", "content", "content_base64",
	"payload", "plaintext", "plaintext_value", "encrypted_value", "secret", "secret_string", "secret_string_wo", "secret_binary", "secret_data", "secret_data_wo", "secret_content",
	"secret_value", "secret_key", "result", "key", "key_string", "json", "private_key", "password", "token", "string",
}

// holds reports whether an attribute of the type holds a secret.
func (c *cleaner) holds(at, key string) bool {
	if at != "" {
		return false
	}
	for _, kind := range secretKinds {
		if kind.kind.MatchString(c.kind) && slices.Contains(kind.fields, key) {
			return true
		}
	}
	return false
}

var secretWords = []string{
	"password", "passwd", "secret", "token", "private_key", "access_key", "api_key", "apikey", "credential", "connection_string", "conn_str", "user_data", "kube_config",
	"kubeconfig", "client_key", "passphrase", "cert_pem", "sas_url", "sensitive", "primary_key", "secondary_key", "master_key", "shared_key", "account_key", "signing_key",
	"pkcs12", "p12", "pfx", "keystore", "plaintext", "auth_string", "startup_script", "custom_data",
}

// sounds reports whether an attribute of this name may be a secret: states do not
// always mark those that a provider alone knows to be.
func sounds(key string) bool {
	small := strings.ReplaceAll(strings.ToLower(key), "-", "_")
	return secrecy.Name(key) || slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(small, word) })
}
