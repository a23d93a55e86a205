import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { animationStreamRouteKind } from '@tollway/crds/animation-stream-route.ts'
import { describeResource } from './describe-resource.ts'

/** The example that the page shows, as a path below the repository. */
export const exampleRoute = 'examples/every-field/kiosk.yaml'

/** The page of AnimationStreamRoute, without the notice of where it comes from. */
export function animationStreamRoutePage(): string {
  const example = readFileSync(join(import.meta.dirname, '../..', exampleRoute), 'utf8')
  return `# AnimationStreamRoute

${animationStreamRouteKind.description}

A producer pushes a request to the broker, and any number of consumers pull it. The ids in the request
decide which route holds for it; without any route a broken rule is a warning, late joiners get what comes
now, and producers wait for slow consumers. \`tollway validate\` finds every mistake before anything is
applied.

## Example

[${exampleRoute}](../../${exampleRoute}) has every field:

\`\`\`yaml
${example}\`\`\`

## Whose streams are whose

- A stream id prefix belongs to the namespace of the oldest route that names it, and so does every longer
  one. A route of another namespace may have neither the same prefix, nor one that begins with it, nor one
  with which it begins: it is rejected (\`PrefixConflict\`), and its status names the owner. Within a
  namespace prefixes may overlap.
- The empty prefix belongs to no namespace. A route without a prefix is for streams without a claimed prefix.
- Two routes that match exactly the same cannot both hold: the younger is refused (\`MatchConflict\`).

## Tokens

A route with \`tokenSecretRef\` is open only to callers that bring one of its tokens (\`authorization:
Bearer TOKEN\`). These tokens have both rights, to push and to pull. Those of \`pushTokenSecretRef\` have
only the right to push, and those of \`pullTokenSecretRef\` only the right to pull. A right for which a
route names no Secret needs no token: a route with \`pushTokenSecretRef\` alone is open to all pulls.

A producer chooses its \`source_service_id\` itself, so tokens protect more than what their route matches.
The tokens of a route with \`streamIdPrefix\` protect every stream with that prefix, whatever source and
target a caller names: a request that no route with tokens at the longest protected prefix matches needs
one of the tokens there, also when a route without tokens has a longer prefix. The tokens of a route with
\`targetObjectId\` and no prefix protect every request for that target, unless a route with a prefix
matches it. A route with \`sourceServiceId\` alone protects only the requests that name this source. Each
right is protected by the tokens for it. Where the prefixes of two routes overlap and only one of them
needs a token, both have the condition \`Doubtful\`, and \`tollway validate\` warns.

- The Secret is in the namespace of the route. In a cluster the operator reads it by its name, and again
  30 seconds later, with very many Secrets [less often](../tasks/install.md#secrets); it never lists Secrets.
  The namespace must have [granted](../tasks/install.md#secrets) the Secret: until then the route is closed,
  and its condition \`SecretForbidden\` has the command. On one machine the Secret is a manifest in the
  folder, with \`stringData\` or \`data\`.
- Brokers get the SHA-256 of each token and nothing else. No status, log or event
  contains a token. A token should be long and random: \`openssl rand -hex 32\`.
- Several lines are several tokens. To exchange one, add the new one as a second line, let all callers take
  it, and remove the first.
- While the Secret, or the entry in it, is missing, the route is closed to all callers, and says so
  (\`Programmed\` is false for \`SecretMissing\`). It is never open by accident.

## Notifications

With \`notify\` brokers post a signed message to a webhook when a request begins and when it ends:
[streams.md](../concepts/streams.md#notifications). Its Secret is read as those with tokens are. While it is
missing, nothing is posted, and the route serves its streams.

## Status

\`activeStreams\` and \`consumers\` are what brokers report of themselves, some seconds old; in a cluster
they are written every 10 seconds at most. \`enforced\` counts the brokers that acknowledged exactly this
content, of those that take calls. The reasons of the conditions are in [operator.md](operator.md#status).

${describeResource(animationStreamRouteKind)}`
}
