package sops

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// encryptedForm is how SOPS writes a value.
var encryptedForm = regexp.MustCompile(`^ENC\[AES256_GCM,data:(.*),iv:(.+),tag:(.+),type:([a-z]+)\]$`)

// What is wrong with a value. No parser's error is told, for it may quote the value.
var (
	errNotEncrypted = errors.New("it is not encrypted")
	errNotOpened    = errors.New("it was changed, or moved from another place")
	errNotOfType    = errors.New("it is not of its type")
)

// commentType is that of a comment, which SOPS may write as an item of a list.
const commentType = "comment"

// openValue decrypts a value that stands at a place: the additional data that SOPS binds
// it to. What it returns is as SOPS puts it into the MAC.
func openValue(text string, key []byte, place string) (content []byte, kind string, err error) {
	if text == "" {
		return nil, "str", nil
	}
	parts := encryptedForm.FindStringSubmatch(text)
	if parts == nil {
		return nil, "", errNotEncrypted
	}
	var decoded [3][]byte
	for i := range decoded {
		if decoded[i], err = base64.StdEncoding.DecodeString(parts[i+1]); err != nil {
			return nil, "", errNotOpened
		}
	}
	data, iv, tag := decoded[0], decoded[1], decoded[2]
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, "", errNotOpened
	}
	if len(iv) == 0 || len(iv) > 64 || len(tag) != block.BlockSize() {
		return nil, "", errNotOpened
	}
	sealed, err := cipher.NewGCMWithNonceSize(block, len(iv))
	if err != nil {
		return nil, "", errNotOpened
	}
	plain, err := sealed.Open(nil, iv, append(data, tag...), []byte(place))
	if err != nil {
		return nil, "", errNotOpened
	}
	content, err = asHashed(plain, parts[4])
	return content, parts[4], err
}

// asHashed is what SOPS hashes of a value of a type: a number or truth value as it would
// write it, not as it is.
func asHashed(plain []byte, kind string) ([]byte, error) {
	switch kind {
	case "str", "bytes", commentType:
		return plain, nil
	case "int":
		if number, err := strconv.Atoi(string(plain)); err == nil {
			return strconv.AppendInt(nil, int64(number), 10), nil
		}
	case "float":
		if number, err := strconv.ParseFloat(string(plain), 64); err == nil {
			return strconv.AppendFloat(nil, number, 'f', -1, 64), nil
		}
	case "bool":
		if truth, err := strconv.ParseBool(string(plain)); err == nil {
			return truthBytes(truth), nil
		}
	case "time":
		var at time.Time
		if at.UnmarshalText(plain) == nil {
			return at.MarshalText()
		}
	}
	return nil, errNotOfType
}

// plainBytes is what SOPS hashes of a value that is not encrypted.
func plainBytes(value any) ([]byte, error) {
	switch value := value.(type) {
	case string:
		return []byte(value), nil
	case int:
		return strconv.AppendInt(nil, int64(value), 10), nil
	case float64:
		return strconv.AppendFloat(nil, value, 'f', -1, 64), nil
	case bool:
		return truthBytes(value), nil
	case time.Time:
		return value.MarshalText()
	}
	return nil, errNotOfType
}

func truthBytes(truth bool) []byte {
	if truth {
		return []byte("True")
	}
	return []byte("False")
}

// place is the additional data of a value: the keys of mappings on the way to it.
func place(keys []string) string { return strings.Join(keys, ":") + ":" }
