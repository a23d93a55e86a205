import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { animationStreamRouteKind } from '@tollway/crds/animation-stream-route.ts'
import { describeResource } from './describe-resource.ts'

/** The example that the page shows, as a path below the repository. */
const examplePath = 'examples/every-field/kiosk.yaml'

/** Returns the page of AnimationStreamRoute as Markdown, without the notice that it is generated. */
export function animationStreamRoutePage(): string {
  const example = readFileSync(join(import.meta.dirname, '../..', examplePath), 'utf8')
  return `# AnimationStreamRoute

${animationStreamRouteKind.description}

A producer pushes a request to the broker, and any number of consumers pull it. The broker selects the route
of a request by the ids in its header. Without a matching route the defaults apply: a violation of a rule is
reported by a warning, late joiners receive new messages only, and producers wait for slow consumers.
\`tollway validate\` reports every problem before you apply a resource.

## Example

[${examplePath}](../../${examplePath}) has every field:

\`\`\`yaml
${example}\`\`\`

## Ownership of prefixes

- A stream id prefix belongs to the namespace of the oldest route with this prefix, and so does every longer
  prefix. A route of another namespace cannot have this prefix, a longer one that begins with it, or a shorter
  one with which it begins: such a route is rejected (\`PrefixConflict\`), and its status names the owner.
  Within a namespace, prefixes may overlap.
- The empty prefix belongs to no namespace. A route without a prefix applies to streams without a claimed
  prefix.
- The prefix and the match of a deleted route are kept for its namespace for a minute (\`ClaimKept\`), so that a route that is
  deleted and created again has them still. A route of another namespace gets them after that.
- Of two routes with the same \`match\`, the younger is rejected (\`MatchConflict\`).

${tokens}
## Notifications

With \`notify\` brokers post a signed message to a webhook when a request begins and when it ends:
[streams.md](streams.md#notifications). The operator reads its Secret like the Secrets with
tokens. If the Secret is missing, no message is posted, and the route serves its streams.

## Status

\`activeStreams\` and \`consumers\` are sums of the numbers that brokers report, and some seconds old. In a
cluster they are written at most every 10 seconds. \`enforced\` has the number of brokers that acknowledged
this version of the route, and the number of brokers that serve calls. The reasons of the conditions are in
[operator.md](operator.md#status).

${describeResource(animationStreamRouteKind)}`
}

const tokens = `## Tokens

A route with \`tokenSecretRef\` accepts only callers that send one of its tokens (\`authorization: Bearer
TOKEN\`). These tokens grant push and pull. The tokens of \`pushTokenSecretRef\` grant only push, and the
tokens of \`pullTokenSecretRef\` only pull. A right for which a route names no Secret needs no token: with
\`pushTokenSecretRef\` alone, every caller can pull.

A producer chooses its \`source_service_id\` itself. For this reason tokens protect more streams than the
route matches:

- The tokens of a route with \`streamIdPrefix\` protect every stream with that prefix, with any source
  and any target. If no route with tokens at the longest protected prefix matches a request, the
  request needs one of the tokens at this prefix, also if a route without tokens has a longer prefix.
- The tokens of a route with \`targetObjectId\` and no prefix protect every request for that target, unless a
  route with a prefix matches the request.
- The tokens of a route with \`sourceServiceId\` alone protect only the requests that name this source.

Push and pull are each protected by the tokens that grant them. If the prefixes of two routes overlap and only
one of them needs a token, both have the condition \`Doubtful\`, and \`tollway validate\` warns.

- The Secret is in the namespace of the route. In a cluster the operator reads it by its name every 30 to 45
  seconds, with very many Secrets [less often](../tasks/install.md#secrets); it never lists Secrets. The
  namespace must [grant](../tasks/install.md#secrets) the Secret. Until then, the route rejects all callers,
  and its condition \`SecretForbidden\` has the command. On one machine the Secret is a manifest in the
  folder, with \`stringData\` or \`data\`.
- Brokers receive only the SHA-256 of each token. No status, log or event contains a token. A token should be
  long and random: \`openssl rand -hex 32\`.
- Each line of the entry is a token. To replace a token, add the new one as a second line, change all callers
  to it, and remove the first line.
- If the Secret, or its entry, is missing, the route rejects all callers, and the condition \`Programmed\` is
  false with the reason \`SecretMissing\`. A missing Secret never opens a route.
`
