import {
  type Command,
  type CommandOutput,
  exitCodes,
  UsageError,
} from '@tollway/chassis/command-line/command.ts'
import { texts } from '@tollway/chassis/command-line/option.ts'
import { parseOptions } from '@tollway/chassis/command-line/parse-options.ts'
import type { RateLimitDomain } from '@tollway/ratelimit/rules/model.ts'
import { escapeControls } from '@tollway/ratelimit/rules/problems.ts'
import { type HeaderNames, isHeader, toEnvoyQuota } from '../../kinds/rate-limit-config/envoy-quota.ts'
import { readFolder } from '../read-folder.ts'
import { render, renderTable } from '../render.ts'
import { folderOptions, outputOptionOf } from '../shared-options.ts'
import { formatDiagnostic, type PublishedSnapshot, validateFolder } from '../validate-folder.ts'

const options = {
  ...folderOptions,
  output: outputOptionOf(['yaml', 'json', 'table', 'envoy-quota']),
  header: texts({
    placeholder: 'KEY=HEADER',
    help: 'with -o envoy-quota, the header with the values of a key (default: the key); repeat it for each key',
  }),
}

export const translateCommand: Command = {
  name: 'translate',
  summary: 'print the content of the feed for manifests',
  options,
  help: {
    usage: ['[-f FOLDER] [-o yaml|json|table]', '[-f FOLDER] -o envoy-quota [--header KEY=HEADER...]'],
    description: `\
Prints the content of the feed for the manifests in FOLDER: for each type with resources, its version and its
messages. Invalid resources are reported and omitted. Without -f it prints the current feed of the operator on
this machine, which has the last good version of an invalid manifest.

With -o envoy-quota it prints Envoy's filter rate_limit_quota for each domain with rules of delivery: Quota: an
entry of http_filters, for the cluster ratelimit. A key is the header of the same name, unless --header names
another one; remote_address is the address of the caller. The first rule that matches decides, so rules with
more levels come first.`,
    exitCodes:
      '0 when the feed has a resource, or -o envoy-quota a filter; 1 when it is empty; 2 when FOLDER cannot be read.',
    examples: [
      'tollway translate -f examples/quickstart',
      'tollway translate -f limits.yaml -o table',
      'tollway translate -f limits.yaml -o envoy-quota --header path=:path',
    ],
  },
  async run(args, output) {
    const { values } = parseOptions(args, options)
    const format = values.output
    const headers = readHeaders(values.header)
    const { diagnostics, domains, published } = await validateFolder(
      await readFolder(values.file, values['state-dir'], output),
    )
    output.printError(diagnostics.map(formatDiagnostic).join(''))
    if (format === 'envoy-quota') return printQuota(domains, headers, output)
    const filled = published.filter(({ snapshot }) => snapshot.resources.size > 0)
    // An empty feed is shown as the first type without resources.
    const shown = filled.length > 0 ? filled : published.slice(0, 1)
    if (format === 'table') output.print(shown.map(formatSnapshot).join('\n'))
    else {
      const documents = shown.map(one => render(decodeMessages(one), format))
      output.print(documents.join(format === 'yaml' ? '---\n' : ''))
    }
    return filled.length > 0 ? exitCodes.ok : exitCodes.wrong
  },
}

function printQuota(
  domains: readonly RateLimitDomain[],
  headers: HeaderNames,
  output: CommandOutput,
): number {
  const { filters, problems } = toEnvoyQuota(domains, headers)
  output.printError(problems.map(problem => `warning: left out: ${escapeControls(problem)}\n`).join(''))
  if (filters.length > 0) output.print(render(filters, 'yaml'))
  else output.printError('no rule has delivery: Quota\n')
  return filters.length > 0 ? exitCodes.ok : exitCodes.wrong
}

function readHeaders(given: readonly string[]): HeaderNames {
  return new Map(
    given.map(text => {
      const at = text.lastIndexOf('=')
      const header = text.slice(at + 1)
      if (at > 0 && isHeader(header)) return [text.slice(0, at), header]
      throw new UsageError(`--header ${text}: expected KEY=HEADER, such as user=x-user or path=:path`)
    }),
  )
}

function formatSnapshot({ snapshot }: PublishedSnapshot): string {
  const rows = Array.from(snapshot.resources.values(), ({ name, bytes, hash }) => [
    name,
    `${bytes.length}`,
    hash,
  ])
  return `version ${snapshot.version}\n${renderTable(['RESOURCE', 'BYTES', 'HASH'], rows)}`
}

function decodeMessages({ snapshot, show }: PublishedSnapshot) {
  const { version, typeUrl, resources } = snapshot
  return { version, typeUrl, resources: Array.from(resources.values(), ({ bytes }) => show(bytes)) }
}
