import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { settings as brokerSettings } from '@tollway/broker/settings.ts'
import { describeSettings } from '@tollway/chassis/settings.ts'
import { rateLimitConfigKind, rateLimitConfigLimits } from '@tollway/crds/rate-limit-config.ts'
import { assets } from '@tollway/payments/pages/assets.ts'
import { pageHeaders } from '@tollway/payments/pages/page-headers.ts'
import { settings as paymentsSettings } from '@tollway/payments/settings.ts'
import { settings } from '@tollway/ratelimit/settings.ts'
import { animationStreamRoutePage } from './animation-stream-route-page.ts'
import { describeResource } from './describe-resource.ts'
import { describeValues } from './describe-values.ts'
import { merchantPage } from './merchant-page.ts'

/** A page that is made from the code, so that the two cannot part. */
export interface Page {
  /** `rate-limit-settings.md`. */
  readonly name: string
  readonly text: string
}

const notice = (source: string) => `<!-- Made by docs/generate.ts from ${source}; change it there. -->`

/** The example that the page of RateLimitConfig shows, as a path below the repository. */
export const exampleOfEveryField = 'examples/every-field/checkout.yaml'

/** The same on every run. */
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
  return `${notice('services/payments/pages/assets.ts')}

# Inventory of the payment page

Everything that the payment page loads, for PCI DSS 4.0.1, requirements 6.4.3 and 11.6.1. All of it is part of
the service; nothing comes from another address. A change of a file changes its hash here, so that each change
is reviewed with the code. How the page is checked while it runs:
[payments.md](payments.md#card-data-and-pci-dss).

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

The service is set up by environment variables. An empty variable counts as not set. Names in one row are
the same setting; two of them with unlike values are refused. A setting that may be secret can also stand in
the file that \`NAME_FILE\` names. A value that is not allowed keeps the service from starting, and every such
value is named.

With \`tollway run\` the operator sets what each process needs; \`--env NAME=VALUE\`, or \`rateLimitEnv\` in
its [configuration file](operator.md#configuration-file), adds to that.

${describeSettings(settings)}`
}

function brokerSettingsPage(): string {
  return `${notice('services/broker/settings.ts')}

# Settings of the broker

The broker of animation streams is set up by environment variables. An empty variable counts as not set. A
setting that may be secret can also stand in the file that \`NAME_FILE\` names. A value that is not allowed
keeps the broker from starting, and every such value is named. What the rate limit service has too has the
same names and meanings.

With \`tollway run\` the operator sets what each process needs; \`--broker-env NAME=VALUE\`, or
\`brokerEnv\` in its [configuration file](operator.md#configuration-file), adds to that. In a cluster
\`broker.env\` of the [chart's values](helm-values.md) does. What holds for some streams only stands in an
[AnimationStreamRoute](animation-stream-route.md).

${describeSettings(brokerSettings)}`
}

function paymentsSettingsPage(): string {
  return `${notice('services/payments/settings.ts')}

# Settings of the payments service

The payments service is set up by environment variables. An empty variable counts as not set. A setting that
is secret can also stand in the file that \`NAME_FILE\` names. A value that is not allowed keeps the service
from starting, and every such value is named.

With \`tollway run --payments\` the operator sets what the process needs; \`--payments-env NAME=VALUE\`, or
\`paymentsEnv\` in its [configuration file](operator.md#configuration-file), adds to that. In a cluster
\`payments.env\` of the [chart's values](helm-values.md) does. What holds for one merchant stands in a
[Merchant](merchant.md).

${describeSettings(paymentsSettings)}`
}

function resourcePage(): string {
  const example = readFileSync(join(import.meta.dirname, '..', exampleOfEveryField), 'utf8')
  const { maxDescriptorLevels } = rateLimitConfigLimits
  return `${notice('crds/rate-limit-config.ts')}

# RateLimitConfig

${rateLimitConfigKind.description}

A request brings descriptors, each a list of entries (key and value). Each descriptor is matched for itself,
and the request is refused when one of their limits is used up. \`tollway try\` says which rule a descriptor
matches, and why; \`tollway validate\` finds every mistake before anything is applied.

## Example

[${exampleOfEveryField}](../${exampleOfEveryField}) has every field:

\`\`\`yaml
${example}\`\`\`

${describeResource(rateLimitConfigKind)}
Below \`spec.descriptors[].descriptors[]\` stand the same fields as in \`spec.descriptors[]\`, down to
${maxDescriptorLevels} levels. The reasons of the conditions stand in [operator.md](operator.md#status).
`
}

function valuesPage(): string {
  return `${notice('charts/tollway/values.yaml and charts/values-schema.ts')}

# Values of the Helm chart

What is not written has the default; a value that is not here is refused, and so is one of another type or
out of its bounds. [install.md](install.md) says how they work together. \`charts/tollway/values.yaml\` has
those that one changes most, with the reasons.

${describeValues()}`
}
