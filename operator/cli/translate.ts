import { fromBinary, toJson } from '@bufbuild/protobuf'
import { RateLimitConfigSchema } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { encodeRateLimitDomain, rateLimitTypeUrl } from '../xds/encode-rate-limit-domain.ts'
import { createSnapshot } from '../xds/snapshot.ts'
import { type Command, exitCodes } from './command.ts'
import { formatFinding, judgeFolder } from './judge-folder.ts'
import { folderOptions, folderOptionsHelp, parseFormat, parseOptions } from './options.ts'
import { readFolder } from './read-folder.ts'
import { render, renderTable } from './render.ts'

export const translate: Command = {
  name: 'translate',
  summary: 'show what the feed would carry',
  help: `Usage: tollway translate [-f FOLDER] [-o yaml|json|table]

Prints what the rate limit processes would get from the manifests below FOLDER: the version of the feed, and
each resource as its message says it. What is wrong is told and left out. Without -f it prints what the
operator on this machine feeds them now: of a wrong manifest, the last good version.

${folderOptionsHelp}
  -o, --output FORMAT  yaml (default), json, or table for an overview

Exit code: 0 when something is carried, 1 when nothing is, 2 when FOLDER cannot be read.

Examples:
  tollway translate -f examples/quickstart
  tollway translate -f limits.yaml -o table
`,
  async run(args, output) {
    const { values } = parseOptions(args, folderOptions)
    const format = parseFormat(values.output, 'yaml')
    const { findings, domains } = judgeFolder(await readFolder(values.file, values['state-dir'], output))
    output.printError(findings.map(formatFinding).join(''))
    const snapshot = createSnapshot(rateLimitTypeUrl, domains.map(encodeRateLimitDomain))
    const resources = [...snapshot.resources.values()]
    if (format === 'table') {
      const rows = resources.map(({ name, bytes, hash }) => [name, `${bytes.length}`, hash])
      output.print(`version ${snapshot.version}\n${renderTable(['RESOURCE', 'BYTES', 'HASH'], rows)}`)
    } else {
      const messages = resources.map(({ bytes }) =>
        toJson(RateLimitConfigSchema, fromBinary(RateLimitConfigSchema, bytes)),
      )
      const { version, typeUrl } = snapshot
      output.print(render({ version, typeUrl, resources: messages }, format))
    }
    return resources.length > 0 ? exitCodes.ok : exitCodes.wrong
  },
}
