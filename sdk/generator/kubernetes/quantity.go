package kubernetes

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

var quantityPattern = regexp.MustCompile(`^([-+]?)([0-9]{1,18})?(?:\.([0-9]{0,9}))?(?:([KMGTPE]i)|([numkMGTPE])|[eE]([-+]?[0-9]{1,2}))?$`)

// decimals are the exponents of ten by the suffix, binaries those of 1024.
var (
	decimals = map[string]int{"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
	binaries = map[string]int{"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
)

// canonicalQuantity writes a quantity as Kubernetes does (CanonicalizeBytes of
// k8s.io/apimachinery/pkg/api/resource): without a fraction, by the largest suffix. What Kubernetes
// would round, and what exceeds its range, is not ok, and stays as it was written.
func canonicalQuantity(written string) (canonical string, ok bool) {
	parts := quantityPattern.FindStringSubmatch(written)
	if parts == nil || parts[2] == "" && parts[3] == "" {
		return "", false
	}
	value, ok := new(big.Int).SetString(parts[1]+parts[2]+parts[3], 10)
	if !ok {
		return "", false
	}
	exponent := -len(parts[3])
	switch binary := parts[4]; {
	case value.Sign() == 0:
		return "0", true
	case binary != "":
		value.Lsh(value, uint(10*binaries[binary]))
		return canonicalBinary(value, exponent)
	case parts[6] != "":
		power, err := strconv.Atoi(parts[6])
		return inDecimals(value, exponent+power, func(e int) (string, bool) { return exponentSuffix(e), true }, err == nil)
	}
	return inDecimals(value, exponent+decimals[parts[5]], decimalSuffix, true)
}

var ten, kibi = big.NewInt(10), big.NewInt(1024)

// canonicalBinary is that of value times ten to an exponent that is not above 0.
func canonicalBinary(value *big.Int, exponent int) (string, bool) {
	for ; exponent < 0; exponent++ {
		whole, rest := new(big.Int).QuoRem(value, ten, new(big.Int))
		if rest.Sign() != 0 {
			return inDecimals(value, exponent, decimalSuffix, true)
		}
		value = whole
	}
	if !value.IsInt64() {
		return "", false
	}
	if value.CmpAbs(kibi) < 0 {
		return inDecimals(value, 0, decimalSuffix, true)
	}
	power := 0
	for ; ; power++ {
		whole, rest := new(big.Int).QuoRem(value, kibi, new(big.Int))
		if rest.Sign() != 0 {
			break
		}
		value = whole
	}
	for suffix, of := range binaries {
		if of == power {
			return value.String() + suffix, true
		}
	}
	return value.String(), power == 0
}

// inDecimals writes value times ten to an exponent by the largest exponent that is a multiple of 3.
func inDecimals(value *big.Int, exponent int, suffixOf func(exponent int) (string, bool), valid bool) (string, bool) {
	for {
		whole, rest := new(big.Int).QuoRem(value, ten, new(big.Int))
		if rest.Sign() != 0 {
			break
		}
		value, exponent = whole, exponent+1
	}
	for ; exponent%3 != 0; exponent-- {
		value = new(big.Int).Mul(value, ten)
	}
	suffix, ok := suffixOf(exponent)
	inRange := exponent >= -9 && len(strings.TrimLeft(value.String(), "-"))+exponent <= 18
	return value.String() + suffix, valid && ok && inRange
}

func decimalSuffix(exponent int) (string, bool) {
	for suffix, of := range decimals {
		if of == exponent {
			return suffix, true
		}
	}
	return "", false
}

func exponentSuffix(exponent int) string {
	if exponent == 0 {
		return ""
	}
	return "e" + strconv.Itoa(exponent)
}
