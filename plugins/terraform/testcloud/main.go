// Command testcloud is a Terraform provider for tests: its buckets are files in a folder, it
// keeps a log of what it did there, and it goes wrong when a file of that folder says so.
package main

import (
	"context"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func main() {
	err := providerserver.Serve(context.Background(), func() provider.Provider { return &cloud{} }, providerserver.ServeOpts{Address: "registry.terraform.io/lehr/testcloud"})
	if err != nil {
		log.Fatal(err)
	}
}

type cloud struct{}

type cloudModel struct {
	Folder types.String `tfsdk:"folder"`
}

func (*cloud) Metadata(_ context.Context, _ provider.MetadataRequest, response *provider.MetadataResponse) {
	response.TypeName = "testcloud"
}

func (*cloud) Schema(_ context.Context, _ provider.SchemaRequest, response *provider.SchemaResponse) {
	response.Schema = schema.Schema{Attributes: map[string]schema.Attribute{
		"folder": schema.StringAttribute{Required: true, Description: "where its buckets are"},
	}}
}

func (*cloud) Configure(_ context.Context, request provider.ConfigureRequest, response *provider.ConfigureResponse) {
	var model cloudModel
	response.Diagnostics.Append(request.Config.Get(context.Background(), &model)...)
	response.ResourceData = store{folder: model.Folder.ValueString()}
}

func (*cloud) DataSources(context.Context) []func() datasource.DataSource { return nil }

func (*cloud) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return &bucket{} }}
}
