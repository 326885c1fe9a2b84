package tfstate

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlantedSecretsAreNotCopied: each of them is in a state as providers write it, by
// types, names and places. At least 37 in 39 are found; what is beside them is copied.
func TestPlantedSecretsAreNotCopied(t *testing.T) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	fmt.Fprint(zip, "#cloud-config\nruncmd:\n- export TOKEN=PLANTED\n")
	zip.Close()
	base := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	const planted = "q7Rt2-Zm4Kx9"
	plant := func(text string) string { return strings.ReplaceAll(text, "PLANTED", planted) }
	key := "-----BEGIN OPENSSH PRIVATE KEY-----\n" + planted + "\n-----END OPENSSH PRIVATE KEY-----\n"
	list := []struct {
		kind       string
		attributes map[string]any
	}{
		{"random_password", map[string]any{"result": planted, "length": 12}},
		{"random_string", map[string]any{"result": planted}},
		{"kubernetes_secret", map[string]any{"data": map[string]any{"user": planted}}},
		{"kubernetes_secret_v1", map[string]any{"binary_data": map[string]any{"user": base(planted)}}},
		{"aws_ssm_parameter", map[string]any{"type": "SecureString", "value": planted}},
		{"aws_secretsmanager_secret_version", map[string]any{"secret_string": planted}},
		{"google_secret_manager_secret_version", map[string]any{"secret_data": planted}},
		{"azurerm_key_vault_secret", map[string]any{"value": planted}},
		{"local_sensitive_file", map[string]any{"content": planted}},
		{"helm_release", map[string]any{"set_sensitive": []any{map[string]any{"name": "x", "value": planted}}}},
		{"helm_release", map[string]any{"values": []any{plant("auth:\n  rootPassword: PLANTED\n")}}},
		{"helm_release", map[string]any{"set": []any{map[string]any{"name": "auth.password", "value": planted}}}},
		{"helm_release", map[string]any{"metadata": []any{map[string]any{"values": plant(`{"auth":{"password":"PLANTED"}}`)}}}},
		{"tls_private_key", map[string]any{"private_key_pem": key, "private_key_openssh": key}},
		{"null_resource", map[string]any{"triggers": map[string]any{"key": key}}},
		{"aws_iam_access_key", map[string]any{"secret": planted}},
		{"google_service_account_key", map[string]any{"private_key": base(plant(`{"private_key":"PLANTED"}`))}},
		{"azuread_application_password", map[string]any{"value": planted}},
		{"github_actions_secret", map[string]any{"plaintext_value": planted}},
		{"gitlab_project_variable", map[string]any{"key": "X", "value": planted, "masked": true}},
		{"vault_generic_secret", map[string]any{"data_json": plant(`{"a":"PLANTED"}`)}},
		{"tfe_variable", map[string]any{"key": "x", "value": planted, "sensitive": true}},
		{"aws_db_instance", map[string]any{"password": planted}},
		{"aws_elasticache_replication_group", map[string]any{"auth_token": planted}},
		{"azurerm_cosmosdb_account", map[string]any{"primary_key": planted}},
		{"azurerm_storage_account", map[string]any{"blob": plant("DefaultEndpointsProtocol=https;AccountName=a;AccountKey=PLANTEDabcdefgh==")}},
		{"aws_lambda_function", map[string]any{"environment": []any{map[string]any{"variables": map[string]any{"API_KEY": planted}}}}},
		{"aws_lambda_function", map[string]any{"environment": []any{map[string]any{"variables": map[string]any{"DSN": plant("mysql://u:PLANTED@h/db")}}}}},
		{"aws_ecs_task_definition", map[string]any{"container_definitions": plant(`[{"name":"a","environment":[{"name":"DB_PASSWORD","value":"PLANTED"}]}]`)}},
		{"aws_instance", map[string]any{"user_data": plant("#!/bin/sh\nexport TOKEN=PLANTED\n")}},
		{"aws_launch_template", map[string]any{"other_data": base(plant("#!/bin/sh\nexport TOKEN=PLANTED\n"))}},
		{"terraform_data", map[string]any{"input": base64.StdEncoding.EncodeToString(bytes.ReplaceAll(packed.Bytes(), nil, nil))}},
		{"terraform_data", map[string]any{"input": plant("https://u:PLANTED@example.com/x")}},
		{"terraform_data", map[string]any{"input": plant("https://example.com/x?sv=1&sig=PLANTEDabcdefgh%3D")}},
		{"terraform_data", map[string]any{"connection": []any{map[string]any{"host": "h", "password": planted}}}},
		{"http", map[string]any{"request_headers": map[string]any{"Authorization": plant("Bearer PLANTED")}}},
		{"aws_cloudfront_distribution", map[string]any{"custom_header": []any{map[string]any{"name": "X-Auth-Token", "value": planted}}}},
		{"kubernetes_manifest", map[string]any{"manifest": map[string]any{"kind": "Secret", "stringData": map[string]any{"a": planted}}}},
		{"kubectl_manifest", map[string]any{"yaml_body": plant("apiVersion: v1\nkind: Secret\nmetadata: {name: x}\nstringData:\n  a: PLANTED\n")}},
		{"docker_config", map[string]any{"json": plant(`{"auths":{"x":{"auth":"`) + base("u:"+planted) + `"}}}`}},
		{"local_file", map[string]any{"content": plant("[client]\npassword = PLANTED\n")}},
		{"aws_acm_certificate", map[string]any{"private_key": key}},
	}
	copied := []string{}
	for i, c := range list {
		c.attributes["region"] = "eu-central-1"
		state, err := json.Marshal(map[string]any{"version": 4, "resources": []any{map[string]any{"mode": "managed", "type": c.kind, "name": "x", "instances": []any{map[string]any{"attributes": c.attributes}}}}})
		if err != nil {
			t.Fatal(err)
		}
		p, err := Read(state)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(p.Definition, p.LeftOut, p.Hints, p.Read)
		for _, content := range p.Files {
			text += string(content)
		}
		for _, form := range []string{planted, base(planted)[:14], base64.StdEncoding.EncodeToString(packed.Bytes())[:40], "PLANTED"} {
			if strings.Contains(text, form) {
				copied = append(copied, fmt.Sprintf("%d, of %s: %v", i, c.kind, c.attributes))
				break
			}
		}
		if !strings.Contains(text, "eu-central-1") {
			t.Errorf("%s: what is beside it is not copied: %s", c.kind, text)
		}
	}
	t.Logf("%d of %d are copied", len(copied), len(list))
	if len(list) < 39 || len(copied)*39 > 2*len(list) {
		t.Errorf("%d of %d secrets are copied:\n%s", len(copied), len(list), strings.Join(copied, "\n"))
	}
}

// TestASecretIsLeftOutEverywhere: what is secret in one place, in an output or in what is
// not taken over is not copied from another, however it is written there.
func TestASecretIsLeftOutEverywhere(t *testing.T) {
	const state = `{"version":4,"outputs":{"a":{"value":"q7Rt2 Zm4+Kx9","sensitive":true}},"resources":[
 {"mode":"data","type":"vault_generic_secret","name":"a","instances":[{"attributes":{"data":{"a":"dataQ7Rt2Zm4"}}}]},
 {"mode":"managed","type":"aws_db_instance","name":"a","instances":[{"attributes":{"password":"dbQ7Rt2Zm4Kx9","http_tokens":"required"}}]},
 {"mode":"managed","type":"aws_x","name":"a","instances":[{"index_key":"dbQ7Rt2Zm4Kx9","attributes":{"id":"1"}}]},
 {"mode":"managed","type":"aws_x","name":"b","instances":[{"attributes":{"a":"is q7Rt2 Zm4+Kx9","b":"x=q7Rt2+Zm4%2BKx9","c":"ZGJRN1J0MlptNEt4OQ==","d":["dataQ7Rt2Zm4"],"e":"it is required","f":{"g":"jdbc;dbQ7Rt2Zm4Kx9"}}}]}]}`
	p, err := Read([]byte(state))
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(p.Definition, p.LeftOut, p.Hints)
	for name, content := range p.Files {
		text += name + string(content)
	}
	for _, secret := range []string{"Rt2", "ZGJRN1J0MlptNEt4OQ", "rt2"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s is copied: %s", secret, text)
		}
	}
	if !strings.Contains(text, "it is required") {
		t.Errorf("a word is taken for a secret: %s", text)
	}
}

// TestGivenStates: LEHR_CASES names a folder with states that went wrong.
func TestGivenStates(t *testing.T) {
	folder := os.Getenv("LEHR_CASES")
	if folder == "" {
		t.Skip("there are no states that went wrong beside the project: LEHR_CASES names no folder")
	}
	for name, secrets := range map[string][]string{
		"11-terraform-state/terraform.tfstate": {"SuperSecret123456", "$2a$10", "MIIE", "abcdEFGH12345678", "outSecretValue1"}, "12-tf-url-password/s.tfstate": {"hunter2hunter2"},
	} {
		state, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		p, err := Read(state)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Files) == 0 {
			t.Errorf("%s: nothing was imported, so no secret could be", name)
		}
		for file, content := range p.Files {
			for _, secret := range secrets {
				if strings.Contains(string(content), secret) {
					t.Errorf("%s: %s", file, content)
				}
			}
		}
	}
}
