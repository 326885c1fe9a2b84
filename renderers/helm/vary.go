package main

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
	_ "time/tzdata" // Zones are the same on every machine.

	"lehr.dev/sdk/generator/kubernetes"
)

// vary answers what templates ask of chance and of the clock: always the same,
// in a second rendering always the other. What differs between the two depends
// on them.
type vary struct {
	second, used bool
	asked        map[string]bool
}

// names are the functions that were called.
func (v *vary) names() string { return strings.Join(slices.Sorted(maps.Keys(v.asked)), ", ") }

func (v *vary) use(name string) {
	if v.asked == nil {
		v.asked = map[string]bool{}
	}
	v.used, v.asked[name] = true, true
}

// pick is one of two.
func pick[T any](v *vary, name string, first, second T) T {
	v.use(name)
	if v.second {
		return second
	}
	return first
}

// certificate has the fields of Helm's own.
type certificate struct{ Cert, Key string }

const mostText = 100_000

// functions replace those of Helm that are not the same each time; keys and
// values of a map come in order. lookup finds nothing, as in helm template.
func (v *vary) functions() template.FuncMap {
	text := func(name, first, second string) func(int) (string, error) {
		return func(length int) (string, error) {
			if length < 0 || length > mostText {
				return "", fmt.Errorf("%s of %d: at most %d are allowed", name, length, mostText)
			}
			return strings.Repeat(pick(v, name, first, second), length), nil
		}
	}
	word := func(name string) func(...any) string {
		return func(...any) string { return pick(v, name, "undetermined-1", "undetermined-2") }
	}
	made := func(name string) func(...any) certificate {
		return func(...any) certificate {
			block := "-----BEGIN " + name + "-----\n" + pick(v, name, "MQ==", "Mg==") + "\n-----END " + name + "-----\n"
			return certificate{block, block}
		}
	}
	f := template.FuncMap{
		"randAlpha": text("randAlpha", "a", "b"), "randAlphaNum": text("randAlphaNum", "a", "b"), "randAscii": text("randAscii", "a", "b"), "randNumeric": text("randNumeric", "1", "2"),
		"randBytes": func(length int) (string, error) {
			bytes, err := text("randBytes", "a", "b")(length)
			return base64.StdEncoding.EncodeToString([]byte(bytes)), err
		},
		"randInt": func(low, high int) (int, error) {
			if low >= high {
				return 0, fmt.Errorf("randInt %d %d: the second must be greater", low, high)
			}
			return pick(v, "randInt", low, high-1), nil
		},
		"shuffle": func(s string) string {
			runes := []rune(s)
			slices.Reverse(runes)
			return pick(v, "shuffle", s, string(runes))
		},
		"uuidv4": func() string {
			return pick(v, "uuidv4", "00000000-0000-4000-8000-000000000001", "11111111-1111-4111-9111-111111111112")
		},
		"bcrypt": word("bcrypt"), "htpasswd": word("htpasswd"), "encryptAES": word("encryptAES"),
		"genPrivateKey": func(...any) string { return made("genPrivateKey")().Key },
		"now":           v.now, "ago": v.ago,
		"date":           func(layout string, date any) (string, error) { return v.date(layout, date, "UTC") },
		"htmlDate":       func(date any) (string, error) { return v.date(time.DateOnly, date, "UTC") },
		"htmlDateInZone": func(date any, zone string) (string, error) { return v.date(time.DateOnly, date, zone) },
		"dateInZone":     v.date, "date_in_zone": v.date,
		"keys": func(dicts ...map[string]any) []string {
			all := []string{}
			for _, dict := range dicts {
				all = append(all, slices.Sorted(maps.Keys(dict))...)
			}
			return all
		},
		"values": func(dict map[string]any) []any {
			all := []any{}
			for _, key := range slices.Sorted(maps.Keys(dict)) {
				all = append(all, dict[key])
			}
			return all
		},
	}
	for _, name := range []string{"genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey"} {
		f[name] = made(name)
	}
	return f
}

// now differs in every part of a date between the two.
func (v *vary) now() time.Time {
	return pick(v, "now", time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2034, 12, 30, 13, 47, 51, 7, time.UTC))
}

// moment is a date as templates have them. What is none is now, says Helm.
func (v *vary) moment(date any) time.Time {
	switch date := date.(type) {
	case time.Time:
		return date
	case *time.Time:
		return *date
	case int64:
		return time.Unix(date, 0)
	case int:
		return time.Unix(int64(date), 0)
	case int32:
		return time.Unix(int64(date), 0)
	}
	return v.now()
}

func (v *vary) date(layout string, date any, zone string) (string, error) {
	if zone == "Local" {
		zone = "UTC"
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		location = time.UTC
	}
	return v.moment(date).In(location).Format(layout), nil
}

func (v *vary) ago(date any) string { return v.now().Sub(v.moment(date)).Round(time.Second).String() }

// varying says which fields differ between two renderings. In annotations,
// where charts put them to start pods anew, the first rendering's stay: nothing
// starts anew. Anywhere else they would be a password or a key that is known to
// all, or mean something that is not so.
func varying(first, second []kubernetes.Object, functions string) (findings []kubernetes.Finding) {
	const most = 5
	others := map[string]kubernetes.Object{}
	for _, o := range second {
		others[o.ID] = o
	}
	for _, o := range first {
		other, found := others[o.ID]
		if !found {
			findings = append(findings, kubernetes.Finding{File: o.File, Message: fmt.Sprintf("%s %s is not there, or has another name, each time: the chart takes it from %s", o.Payload.Kind, o.Payload.Name, functions), Hint: "set the value that the template makes up otherwise"})
			continue
		}
		for _, at := range kubernetes.Compare(o, other, most) {
			f := kubernetes.Finding{File: o.File, Message: fmt.Sprintf("%s of %s %s is another each time: the chart takes it from %s", at, o.Payload.Kind, o.Payload.Name, functions), Hint: "set the value that the template makes up otherwise; keys, certificates and passwords are made in the cluster, for example by cert-manager"}
			if strings.Contains(at, "annotations") {
				f.Warning, f.Message, f.Hint = true, f.Message+", and stays as it is here", "nothing has to be done: pods start anew when their own fields change"
			}
			findings = append(findings, f)
		}
	}
	if len(second) > len(first) {
		findings = append(findings, kubernetes.Finding{Message: "how many objects the chart gives depends on " + functions, Hint: "set the value that the template makes up otherwise"})
	}
	return findings
}

var lineOf = regexp.MustCompile(`line (\d+)`)

func yamlLine(err error) int {
	if found := lineOf.FindStringSubmatch(err.Error()); found != nil {
		line, _ := strconv.Atoi(found[1])
		return line
	}
	return 0
}
