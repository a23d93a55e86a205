import { type Command, exitCodes } from '@tollway/chassis/command-line/command.ts'
import { texts } from '@tollway/chassis/command-line/option.ts'
import { parseWithSource, requireOption } from '@tollway/chassis/command-line/parse-options.ts'
import type { Explanation } from '@tollway/ratelimit/rules/explain.ts'
import { escapeControls } from '@tollway/ratelimit/rules/problems.ts'
import { describeLimit } from '../../kinds/rate-limit-config/describe-limit.ts'
import { explainBucket, explainRequest } from '../../kinds/rate-limit-config/explain-request.ts'
import { parseEntriesOption, requireEntries } from '../entries.ts'
import { type FolderContent, folderSource } from '../read-folder.ts'
import { render } from '../render.ts'
import type { SourceOf } from '../run-program.ts'
import { domainOption, entriesOption, outputOption } from '../shared-options.ts'
import { formatDiagnostic, validateFolder } from '../validate-folder.ts'

const own = {
  domain: domainOption,
  entries: entriesOption,
  bucket: texts({
    placeholder: 'LIST',
    help: "the id of a bucket of Envoy's rate_limit_quota, in any order; repeat it for each one",
  }),
  output: outputOption(),
}

export const createTry = (source: SourceOf<FolderContent>): Command => ({
  name: 'try',
  summary: 'show the rule that a request matches, and why',
  options: { ...own, ...source.options },
  help: {
    usage: [
      '--domain DOMAIN --entries KEY=VALUE[,KEY=VALUE...] [-f FOLDER]',
      '--domain DOMAIN --bucket KEY=VALUE[,KEY=VALUE...] [-f FOLDER]',
    ],
    description: `\
Shows for each descriptor of a request the rule that it matches, entry by entry, and the limit that applies.
It reads the manifests and counts nothing. Without -f it uses the rules in force on this machine: for an
invalid manifest, the rules of its last good version.

With --bucket it shows the limit that a proxy shares for a bucket of its quota filter. The entries of a bucket
get the order of the rules.`,
    exitCodes:
      '0 when every descriptor and bucket has a limit, 1 when one has none, 2 when the manifests cannot be read.',
    examples: [
      'tollway try --domain checkout --entries user=alice',
      'tollway try -f examples/quickstart -d checkout -e path=/pay/card,plan=free -e user=alice',
    ],
  },
  async run(args, output) {
    const { values, sourceValues } = parseWithSource(args, own, source.options)
    const format = values.output
    const domain = requireOption('--domain', values.domain)
    const buckets = values.bucket.map(text => parseEntriesOption(text, 'bucket'))
    const areOptional = buckets.length > 0 && values.entries.length === 0
    const descriptors = areOptional ? [] : requireEntries(values.entries)
    const { diagnostics, domains } = await validateFolder(await source.open(sourceValues, output))
    output.printError(diagnostics.map(formatDiagnostic).join(''))
    const { explanations: ofCalls, isAtomic } = explainRequest(domains, domain, descriptors)
    const explanations = [...ofCalls, ...buckets.map(bucket => explainBucket(domains, domain, bucket))]
    const end = isAtomic
      ? '\nallOrNothing: every limit above counts the request if all of them admit it\n'
      : ''
    output.print(
      format === 'table' ? explanations.map(describe).join('\n') + end : render(explanations, format),
    )
    return explanations.every(({ limit }) => limit !== undefined) ? exitCodes.ok : exitCodes.wrong
  },
})

export const tryCommand = createTry(folderSource)

function describe({ entries, result, limit, baseKey }: Explanation): string {
  const lines = entries.flatMap(({ key, value, how, rule, reason, candidates = [] }) => {
    const found = rule === undefined ? how : `${how} match of ${rule}`
    return [
      `  ${key}=${value}  ${found}${reason === undefined ? '' : `: ${reason}`}`,
      ...candidates.map(one => `      ${one.matches ? '+' : '-'} ${one.how} ${one.rule}: ${one.reason}`),
    ]
  })
  lines.unshift(entries.map(({ key, value }) => `${key}=${value}`).join(' '))
  lines.push(`  => ${result}`)
  if (limit !== undefined) {
    const details = describeLimit(limit, baseKey, Math.floor(Date.now() / 1000))
    lines.push(...details.map(line => `     ${line}`))
  }
  return `${lines.map(escapeControls).join('\n')}\n`
}
