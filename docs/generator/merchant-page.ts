import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { merchantKind } from '@tollway/crds/merchant.ts'
import { mutableMerchantFields } from '@tollway/payments/domain/merchant.ts'
import { describeResource } from './describe-resource.ts'

/** The example that the page shows, as a path below the repository. */
const examplePath = 'examples/every-field/shop.yaml'

const mutable = [...mutableMerchantFields, 'app', 'users', 'webhooks', 'deletionPolicy']
const mutableFields = new Intl.ListFormat('en-GB').format(mutable.map(field => `\`${field}\``))

/** Returns the page of Merchant as Markdown, without the notice that it is generated. */
export function merchantPage(): string {
  const example = readFileSync(join(import.meta.dirname, '../..', examplePath), 'utf8')
  return `# Merchant

${merchantKind.description}

For each Merchant resource, the payments service has exactly one merchant, also after crashes. The operator
creates the API key, writes it to the Secret, and sends only its SHA-256 to the payments service. No status,
event or log contains the key. The resource requires the payments service: \`payments.enabled\` of the
[chart's values](helm-values.md), or \`tollway run --payments\`.

## Example

[${examplePath}](../../${examplePath}) has every field:

\`\`\`yaml
${example}\`\`\`

## The Secret

- The Secret has the entries \`apiKey\`, \`appId\`, \`merchantId\`, \`publicKey\`, \`baseUrl\` and
  \`payPageUrl\`, or the names that \`secretRef.keys\` gives them. It is in the namespace of the Merchant, and
  has the name of the Merchant or \`secretRef.name\`. On one machine it is the file
  \`secrets/NAMESPACE.NAME.json\` of the state folder, which only the owner of the file can read.
- The Secret belongs to the Merchant, and is deleted with it. The operator does not change a Secret of this
  name that was not created for this Merchant (\`SecretForeign\`). It keeps entries that other programs add.
- A key becomes the entry \`apiKey\` only when the payments service accepts it. Before that, it is in the
  entry \`apiKey.next\` for a moment.
- The namespace must grant its Secrets to the operator ([install.md](../tasks/install.md#secrets)). Until
  then, the message of the condition \`SecretForbidden\` contains the command that grants them.
- If the Secret is deleted, the operator creates it again within 45 seconds, with very many Merchants
  [later](../tasks/install.md#secrets). It then has a new key, and the previous key is no longer valid. The
  same happens if another program changes the entry of the key.

${rotationAndDeletion}
${conditions}
${describeResource(merchantKind)}`
}

const rotationAndDeletion = `## Rotation of the API key

The operator replaces the key when it reaches the age \`app.rotateAfter\`, and whenever the value of the
annotation \`tollway.dev/rotate-key\` changes:

\`\`\`sh
kubectl annotate mer shop tollway.dev/rotate-key="$(date +%s)" --overwrite
\`\`\`

The previous key stays valid for \`app.keyGrace\`, so that programs have time to read the new one. If a key
has leaked, delete the Secret instead: the previous key is then invalid at once.

## Immutable fields

The fields ${mutableFields} can
be changed. The API server rejects a change of any other field, and its message contains the alternative. On
one machine the payments service rejects the change: the condition has the reason \`ImmutableFieldChanged\`,
and the merchant stays unchanged. The operator never creates a second merchant for the resource.

## Deletion

With \`deletionPolicy: Retain\`, the default, the deletion of the resource deletes the Secret; the merchant
and its keys remain. With \`Delete\` the resource remains until the merchant is closed: the payments service
rejects its keys and new payments, and keeps its books. A closed merchant cannot be opened again. While the
payments service does not answer, the condition has the reason \`NotClosed\`; set \`deletionPolicy\` to
\`Retain\` to delete the resource without closing its merchant. A resource without a merchant is deleted at
once, and where no payments service is enabled, each resource is. On one
machine, a new resource with the name of the deleted one is the same resource, so that it has the reason
\`MerchantClosed\`: use another name.

## Adopting an existing merchant

With \`adopt\` the resource manages a merchant that was created through the API. An API key of the merchant
proves the right to adopt it, because its id is not secret. The merchant must match the resource. It gets an
app and a key for this resource; after the adoption the other key is no longer needed.

In this way a new resource can take over a retained merchant, also with another name or in another cluster.
This requires an API key of the merchant. Keep it before you delete the resource:

\`\`\`sh
kubectl get secret shop-payments -o jsonpath='{.data.PAYMENTS_API_KEY}' | base64 -d > key
kubectl get mer shop -o jsonpath='{.status.merchantId}' > merchant-id
kubectl delete mer shop
kubectl create secret generic shop-before --from-file=apiKey=key
\`\`\`

Then create the resource with \`adopt\`. Without \`adopt\` the operator creates a new merchant. If the
previous resource still exists, it has no merchant any more (\`MerchantClosed\`). Its deletion closes none.
`

const conditions = `## Conditions

| Condition | Reason | Meaning |
|---|---|---|
| \`Accepted\` | \`Valid\`, \`Invalid\` | whether the spec is valid |
| \`Synced\` | \`Provisioned\` | the merchant of the payments service matches the spec |
| | \`Refused\` | the payments service rejects the spec; the message names the fields |
| | \`ImmutableFieldChanged\` | an immutable field differs from the merchant |
| | \`MerchantClosed\` | the merchant is closed |
| | \`SecretMissing\` | the Secret of a webhook does not exist |
| | \`SecretInvalid\` | the Secret of a webhook has no valid signing secret; the message has the cause |
| | \`PaymentsUnreachable\`, \`KeyRefused\` | a temporary error, which the operator retries |
| | \`PaymentsDisabled\` | the payments service is not enabled; the resource can be deleted at once |
| | \`NotClosed\` | the resource is deleted, and its merchant is not closed yet; \`deletionPolicy: Retain\` is the way out |
| \`CredentialsReady\` | \`Written\` | the Secret has the key and the ids |
| | \`SecretForeign\` | a Secret of that name exists, and belongs to another program or resource |
| | \`SecretForbidden\` | the namespace has not granted its Secrets; the message has the command |
| | \`SecretUnknown\`, \`SecretNotWritten\` | the Secret cannot be read or written; the operator retries |
| \`Ready\` | \`Provisioned\` | the three other conditions are true |
`
