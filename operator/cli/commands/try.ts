import { compile } from '@tollway/ratelimit/rules/compile.ts'
import { type Explanation, explain } from '@tollway/ratelimit/rules/explain.ts'
import { type LimitSettings, windowAt } from '@tollway/ratelimit/rules/limit.ts'
import { match } from '@tollway/ratelimit/rules/match.ts'
import { replacedLimits } from '@tollway/ratelimit/rules/replaces.ts'
import { type Command, exitCodes, UsageError } from '../command.ts'
import { parseEntries } from '../entries.ts'
import { folderOptions, folderOptionsHelp, parseFormat, parseOptions } from '../options.ts'
import { readFolder } from '../read-folder.ts'
import { printable, render } from '../render.ts'
import { formatFinding, validateFolder } from '../validate-folder.ts'

export const tryCommand: Command = {
  name: 'try',
  summary: 'say which rule a request matches, and why',
  help: `Usage: tollway try --domain DOMAIN --entries KEY=VALUE[,KEY=VALUE...] [-f FOLDER]

Says for each descriptor of a request which rule it matches, entry by entry, and which limit holds. It reads
the manifests and counts nothing. Without -f it answers as the operator on this machine decides now: where a
manifest is wrong, by its last good version.

  -d, --domain DOMAIN  the domain
  -e, --entries LIST   one descriptor: its keys and values; again for another one. A comma in a value is
                       written \\,
${folderOptionsHelp}
  -o, --output FORMAT  table (default), yaml or json

Exit code: 0 when every descriptor has a limit, 1 when one has none, 2 when the manifests cannot be read.

Examples:
  tollway try --domain checkout --entries user=alice
  tollway try -f examples/quickstart -d checkout -e path=/pay/card,plan=free -e user=alice
`,
  async run(args, output) {
    const { values } = parseOptions(args, {
      domain: { type: 'string', short: 'd' },
      entries: { type: 'string', short: 'e', multiple: true },
      ...folderOptions,
    })
    const format = parseFormat(values.output, 'table')
    const { domain } = values
    if (domain === undefined) throw new UsageError('name the domain with --domain')
    if (values.entries === undefined) throw new UsageError('name the entries with --entries KEY=VALUE')
    const descriptors = values.entries.map(parseEntries)
    const { findings, domains } = await validateFolder(
      await readFolder(values.file, values['state-dir'], output),
    )
    output.printError(findings.map(formatFinding).join(''))
    const rules = compile(domains, { mergeDomainConfigs: false, attach: () => undefined })
    const replaced = replacedLimits(descriptors.map(entries => match(rules, domain, entries)))
    const explanations = descriptors.map(entries =>
      withReplacement(explain(rules, domain, entries), replaced),
    )
    output.print(format === 'table' ? explanations.map(describe).join('\n') : render(explanations, format))
    return explanations.every(({ limit }) => limit !== undefined) ? exitCodes.ok : exitCodes.wrong
  },
}

/** The window that contains this instant. */
function describeWindow(limit: LimitSettings): string {
  const { start, end } = windowAt(limit, Math.floor(Date.now() / 1000))
  return `     window from ${showTime(start)} to ${showTime(end)}`
}

/** Windows can end beyond the times that Date has. */
function showTime(seconds: number): string {
  const date = new Date(seconds * 1000)
  return Number.isNaN(date.getTime()) ? `${seconds} s after 1970` : date.toISOString().replace('.000Z', 'Z')
}

/** A limit that another descriptor of the request replaces does not count. */
function withReplacement(explanation: Explanation, replaced: ReadonlySet<string>): Explanation {
  const { limit, stem: _, ...rest } = explanation
  if (limit === undefined || limit.unlimited || !replaced.has(limit.name)) return explanation
  return {
    ...rest,
    result: `no limit: ${limit.fullKey} (named ${limit.name}) is replaced by another descriptor's`,
  }
}

function describe({ entries, result, limit, stem }: Explanation): string {
  const lines = entries.map(({ key, value, how, rule, reason }) => {
    const found = rule === undefined ? how : `${how} match of ${rule}`
    return `  ${key}=${value}  ${found}${reason === undefined ? '' : `: ${reason}`}`
  })
  lines.unshift(entries.map(({ key, value }) => `${key}=${value}`).join(' '))
  lines.push(`  => ${result}`)
  if (limit?.unitMultiplier !== undefined || limit?.calendar !== undefined) lines.push(describeWindow(limit))
  if (limit?.shadowMode) lines.push('     shadow mode: counted, but never refused')
  if (limit?.quotaMode) lines.push('     quota: refuses only when all quotas of the request are used up')
  if (stem !== undefined && !limit?.unlimited) lines.push(`     counted under ${stem}<window's start>`)
  return `${lines.map(printable).join('\n')}\n`
}
