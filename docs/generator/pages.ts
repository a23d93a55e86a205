import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { settings as brokerSettings } from '@tollway/broker/settings.ts'
import { describeSettings } from '@tollway/chassis/settings.ts'
import { rateLimitConfigKind, rateLimitConfigLimits } from '@tollway/crds/rate-limit-config.ts'
import { maxStoredBytes } from '@tollway/crds/validation/stored-size.ts'
import { assets } from '@tollway/payments/pages/browser/assets.ts'
import { pageHeaders } from '@tollway/payments/pages/browser/page-headers.ts'
import { settings as paymentsSettings } from '@tollway/payments/settings.ts'
import { settings } from '@tollway/ratelimit/settings.ts'
import { animationStreamRoutePage } from './animation-stream-route-page.ts'
import { describeResource } from './describe-resource.ts'
import { describeValues } from './describe-values.ts'
import { merchantPage } from './merchant-page.ts'
import { paymentsReferencePage } from './payments-reference-page.ts'

/** A page that is generated from the code. */
export interface Page {
  /** `rate-limit-settings.md`. */
  readonly name: string
  readonly text: string
}

const notice = (source: string) => `<!-- Made by docs/generate.ts from ${source}; change it there. -->`

/** The example on the page of RateLimitConfig, relative to the repository. */
export const exampleOfEveryField = 'examples/every-field/checkout.yaml'

/** The generated pages. The result is deterministic. */
export function pages(): readonly Page[] {
  return [
    { name: 'rate-limit-settings.md', text: settingsPage() },
    { name: 'broker-settings.md', text: brokerSettingsPage() },
    { name: 'rate-limit-config.md', text: resourcePage() },
    {
      name: 'animation-stream-route.md',
      text: `${notice('crds/animation-stream-route.ts')}\n\n${animationStreamRoutePage()}`,
    },
    { name: 'merchant.md', text: `${notice('crds/merchant.ts')}\n\n${merchantPage()}` },
    { name: 'payments-settings.md', text: paymentsSettingsPage() },
    {
      name: 'payments-reference.md',
      text: `${notice('docs/generator/payments-reference-page.ts')}\n\n${paymentsReferencePage()}`,
    },
    { name: 'payment-page-inventory.md', text: paymentPageInventory() },
    { name: 'helm-values.md', text: valuesPage() },
  ]
}

function paymentPageInventory(): string {
  const code = (text: string) => `\`${text}\``
  const row = (...cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const files = Object.values(assets).map(({ path, type, integrity, purpose }) =>
    row(code(path), type.split(';')[0] ?? '', purpose, code(integrity)),
  )
  const headers = Object.entries(pageHeaders).map(([name, value]) => row(code(name), code(value)))
  return `${notice('services/payments/pages/browser/assets.ts')}

# Inventory of the payment page

The payment page loads these files, for PCI DSS 4.0.1, requirements 6.4.3 and 11.6.1. All of them are part of
the service; the page loads nothing from another address. A change of a file changes its hash here, so that
each change is reviewed with the code. How the page is checked at run time:
[payments.md](../concepts/payments.md#card-data-and-pci-dss).

| File | Type | Purpose | Integrity |
|---|---|---|---|
${files.join('\n')}

Every answer has these headers:

| Header | Value |
|---|---|
${headers.join('\n')}
`
}

function settingsPage(): string {
  return `${notice('services/ratelimit/settings.ts')}

# Settings of the rate limit service

Environment variables configure the service. An empty variable counts as not set. Names in one row are
the same setting; two of them with different values are an error. A setting that may be secret can also be
read from the file in \`NAME_FILE\`. The service does not start with an invalid value, and reports every
such value.

With \`tollway run\` the operator sets what each process needs; \`--env NAME=VALUE\`, or \`rateLimitEnv\` in
its [configuration file](operator.md#configuration-file), adds to that.

${describeSettings(settings)}`
}

function brokerSettingsPage(): string {
  return `${notice('services/broker/settings.ts')}

# Settings of the broker

Environment variables configure the broker of animation streams. An empty variable counts as not set. A
setting that may be secret can also be read from the file in \`NAME_FILE\`. The broker does not start with an
invalid value, and reports every such value. Settings that both services have are equal in name and meaning
to those of the [rate limit service](rate-limit-settings.md).

With \`tollway run\` the operator sets what each process needs; \`--broker-env NAME=VALUE\`, or
\`brokerEnv\` in its [configuration file](operator.md#configuration-file), adds to that. In a cluster
\`broker.env\` of the [chart's values](helm-values.md) does. Settings of single streams are in an
[AnimationStreamRoute](animation-stream-route.md).

${describeSettings(brokerSettings)}`
}

function paymentsSettingsPage(): string {
  return `${notice('services/payments/settings.ts')}

# Settings of the payments service

Environment variables configure the payments service. An empty variable counts as not set. A setting that
is secret can also be read from the file in \`NAME_FILE\`. The service does not start with an invalid value,
and reports every such value.

With \`tollway run --payments\` the operator sets what the process needs; \`--payments-env NAME=VALUE\`, or
\`paymentsEnv\` in its [configuration file](operator.md#configuration-file), adds to that. In a cluster
\`payments.env\` of the [chart's values](helm-values.md) does. Settings of one merchant are in a
[Merchant](merchant.md).

${describeSettings(paymentsSettings)}`
}

function resourcePage(): string {
  const example = readFileSync(join(import.meta.dirname, '../..', exampleOfEveryField), 'utf8')
  const { maxDescriptorLevels } = rateLimitConfigLimits
  return `${notice('crds/rate-limit-config.ts')}

# RateLimitConfig

${rateLimitConfigKind.description}

A request has descriptors, each a list of entries (key and value). Each descriptor is matched separately,
and the request is rejected if one of their limits is exceeded. \`tollway try\` shows which rule a descriptor
matches, and why; \`tollway validate\` finds every mistake before you apply a resource.

## Example

[${exampleOfEveryField}](../../${exampleOfEveryField}) has every field:

\`\`\`yaml
${example}\`\`\`

${describeResource(rateLimitConfigKind)}
\`spec.descriptors[].descriptors[]\` has the same fields as \`spec.descriptors[]\`, for up to
${maxDescriptorLevels} levels. [operator.md](operator.md#status) lists the reasons of the conditions.

## Size

An API server stores a resource as JSON. It also stores the name of each field once for each client that
sets the field. Both together may have ${maxStoredBytes.toLocaleString('en-US')} bytes, which is about the
limit of one request to etcd. \`tollway validate\` and the operator refuse a larger resource with its size.
The table lists the number of rules (a key, a value and a limit each) that fit into one resource:

| Rules | Written with |
| --- | --- |
| 3,000 | \`kubectl apply\`, which repeats the resource in an annotation of 256 KiB at most |
| 6,800 | \`kubectl apply --server-side\`, Helm 4, Flux, Argo CD with \`ServerSideApply=true\` |

Long values, names and metadata take more room. Nesting saves none: a rule below a descriptor takes as much as
any other.

A larger tenant divides its rules into several domains with one resource each, for example one for each of
its services: callers name the domain (\`domain\` of Envoy's filter), and a domain belongs to one resource.
The feed carries 60 MiB of all resources together, in a binary form of about half the size.
`
}

function valuesPage(): string {
  return `${notice('charts/tollway/values.yaml and charts/values-schema.ts')}

# Values of the Helm chart

A value that is not set has its default. The chart rejects an unknown value, a value of another type and a
value out of its bounds. [install.md](../tasks/install.md) explains how the values work together.
\`charts/tollway/values.yaml\` has the most common values, with explanations.

${describeValues()}`
}
