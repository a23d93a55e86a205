import { translateRateLimitConfig } from '../translate/translate-rate-limit-config.ts'
import { type Command, exitCodes } from './command.ts'
import { parseFormat, parseOptions, render } from './options.ts'
import { folderOrRunning, readFolder } from './read-folder.ts'

interface Finding {
  readonly origin: string
  /** `RateLimitConfig shop/checkout`; empty for what is no resource. */
  readonly resource: string
  readonly path: string
  readonly message: string
}

export const validate: Command = {
  name: 'validate',
  summary: 'report every problem in a folder of manifests',
  help: `Usage: tollway validate -f FOLDER [-o table|yaml|json]

Reads every manifest below FOLDER (or one file) and reports all problems of all of them, each with its file, its
field, what was found and what is allowed. Judges as the operator and the API server do.

  -f, --file FOLDER    the folder or file
  -o, --output FORMAT  table (default), yaml or json

Exit code: 0 when all is right, 1 when there is a problem, 2 when FOLDER cannot be read.

Examples:
  tollway validate -f examples/quickstart
  tollway validate -f limits.yaml -o json
`,
  async run(args, output) {
    const { values } = parseOptions(args, {
      file: { type: 'string', short: 'f' },
      output: { type: 'string', short: 'o' },
    })
    const format = parseFormat(values.output, 'table')
    const { resources, problems } = await readFolder(folderOrRunning(values.file, ''))
    const findings: Finding[] = problems.map(problem => ({ ...problem, resource: '', path: '' }))
    const owners = new Map<string, string>()
    for (const { apiVersion, kind, namespace, name, spec, origin } of resources) {
      const full = `${namespace}/${name}`
      const resource = `${kind} ${full}`
      if (kind !== 'RateLimitConfig') {
        findings.push({
          origin,
          resource,
          path: 'kind',
          message: `${kind} is not known; there is RateLimitConfig`,
        })
        continue
      }
      const made = translateRateLimitConfig(full, { apiVersion, kind, metadata: { name, namespace }, spec })
      if ('problems' in made) {
        findings.push(...made.problems.map(problem => ({ origin, resource, ...problem })))
        continue
      }
      const owner = owners.get(made.value.domain)
      if (owner !== undefined) {
        const message = `"${made.value.domain}" is also the domain of ${owner}`
        findings.push({ origin, resource, path: 'spec.domain', message })
      }
      owners.set(made.value.domain, full)
    }
    if (format !== 'table') output.print(render(findings, format))
    else if (findings.length > 0) output.print(findings.map(describe).join(''))
    else output.print(`${resources.length} resources, no problem\n`)
    return findings.length > 0 ? exitCodes.wrong : exitCodes.ok
  },
}

function describe({ origin, resource, path, message }: Finding): string {
  const place = resource === '' ? origin : `${origin}: ${resource}`
  return path === '' ? `${place}: ${message}\n` : `${place}: ${path}: ${message}\n`
}
