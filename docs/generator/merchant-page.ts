import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { merchantKind } from '@tollway/crds/merchant.ts'
import { describeResource } from './describe-resource.ts'

/** The example that the page shows, as a path below the repository. */
export const exampleMerchant = 'examples/every-field/shop.yaml'

/** The page of Merchant, without the notice of where it comes from. */
export function merchantPage(): string {
  const example = readFileSync(join(import.meta.dirname, '../..', exampleMerchant), 'utf8')
  return `# Merchant

${merchantKind.description}

The operator creates the API key, and sends only its SHA-256 to the payments service, which creates the
merchant: one for each resource, also after crashes. The key is only in the Secret, never in a status, an
event or a log. It needs the payments service: \`payments.enabled\` of the
[chart's values](helm-values.md), or \`tollway run --payments\`.

## Example

[${exampleMerchant}](../../${exampleMerchant}) has every field:

\`\`\`yaml
${example}\`\`\`

## The Secret

- It has \`apiKey\`, \`appId\`, \`merchantId\`, \`publicKey\`, \`baseUrl\` and \`payPageUrl\`, or whatever
  \`secretRef.keys\` calls them, and is in the namespace of the Merchant, under its name or
  \`secretRef.name\`. On one machine it is the file \`secrets/NAMESPACE.NAME.json\` of the state folder, which
  only its owner can read.
- It belongs to the Merchant and goes with it. A Secret of that name that was not made for this very
  Merchant is left alone (\`SecretForeign\`); entries that others add stay.
- Programs find a key only once it opens something. A key that is not active yet has a separate entry,
  \`apiKey.next\`, for a moment.
- The namespace must have granted its Secrets to the operator ([install.md](../tasks/install.md#secrets)).
  Until then the condition \`SecretForbidden\` has the command that grants it.
- When it is deleted it is made again within 45 seconds, with very many Merchants
  [later](../tasks/install.md#secrets), with another key; the previous key is no longer
  valid. The same happens when another program changes the entry of the key.

${anotherKey}
${whatTheStatusTells}
${describeResource(merchantKind)}`
}

const anotherKey = `## Another key

A key is replaced at the age of \`app.rotateAfter\`, and whenever the annotation
\`tollway.dev/rotate-key\` gets another value:

\`\`\`sh
kubectl annotate mer shop tollway.dev/rotate-key="$(date +%s)" --overwrite
\`\`\`

The key before stays valid for \`app.keyGrace\`, so that programs can take the new one in their own time.
After a key has leaked, delete the Secret instead: then it opens nothing at once.

## What cannot be changed

Only \`name\`, \`email\` and \`descriptor\` of a merchant ever change, and \`app\`, \`users\`,
\`webhooks\` and \`deletionPolicy\`, which are about it. An API server refuses any other change, and says what
to do. On one machine the payments service rejects it: the condition is \`ImmutableFieldChanged\`, and the
merchant is unchanged. It is never created again.

## Its end

With \`deletionPolicy: Retain\`, which is the default, the merchant stays when its resource goes, and so do
its keys; only the Secret goes. With \`Delete\` the resource stays until the merchant is closed: its keys open
nothing any more, nothing new is accepted, and its books stay. A closed merchant is not opened again: on one
machine, where a resource of the same name is the same resource, take another name (\`MerchantClosed\`).

## One that is there already

With \`adopt\` a merchant that was made through the API becomes that of the resource. An API key of the
merchant proves the right to adopt it, because its id is not
secret. The merchant must match the resource; it gets an app and a key for this resource. After the adoption
the other key is no longer needed.

So a retained merchant continues under a new resource, of another name or cluster too, if a key of it
was kept. Before the resource is deleted:

\`\`\`sh
kubectl get secret shop-payments -o jsonpath='{.data.PAYMENTS_API_KEY}' | base64 -d > key
kubectl get mer shop -o jsonpath='{.status.merchantId}' > merchant-id
kubectl delete mer shop
kubectl create secret generic shop-before --from-file=apiKey=key
\`\`\`

and then the same resource with \`adopt\`. Without it a new merchant is made. The resource before, should it
still be there, has none any more (\`MerchantClosed\`), and closes none when it goes.
`

const whatTheStatusTells = `## Status

| Condition | Reason | What it says |
|---|---|---|
| \`Accepted\` | \`Valid\`, \`Invalid\` | whether the resource is right in itself |
| \`Synced\` | \`Provisioned\` | the payments service has it as the resource says |
| | \`Refused\` | it does not take what the resource says: the fields are named |
| | \`ImmutableFieldChanged\` | the resource says otherwise than the merchant that was made of it |
| | \`MerchantClosed\` | the merchant was closed |
| | \`SecretMissing\` | a Secret that a webhook names is not there |
| | \`SecretInvalid\` | what is in it is no secret that receivers can verify with; it says why |
| | \`PaymentsUnreachable\`, \`KeyRefused\` | passes by itself; it is tried again |
| | \`PaymentsDisabled\` | no payments service runs here |
| | \`NotClosed\` | the resource is deleted, and its merchant could not be closed yet |
| \`CredentialsReady\` | \`Written\` | the Secret has the key and the ids |
| | \`SecretForeign\` | a Secret of that name exists, and belongs to another program or resource |
| | \`SecretForbidden\` | the namespace has not granted its Secrets; the message has the command |
| | \`SecretUnknown\`, \`SecretNotWritten\` | the Secret cannot be read or written; it is tried again |
| \`Ready\` | \`Provisioned\` | all three |
`
