import { type Command, exitCodes } from '../command.ts'
import { folderOptions, folderOptionsHelp, parseFormat, parseOptions } from '../options.ts'
import { readFolder } from '../read-folder.ts'
import { render, renderTable } from '../render.ts'
import { type FedSnapshot, formatFinding, validateFolder } from '../validate-folder.ts'

export const translate: Command = {
  name: 'translate',
  summary: 'show what the feed would carry',
  help: `Usage: tollway translate [-f FOLDER] [-o yaml|json|table]

Prints the content of the feed for the manifests in FOLDER: for each type with resources,
the version of the feed, and each resource as in its message. Invalid resources are reported and left out.
Without -f it prints the present feed of the operator on this machine, which has the last good version of an
invalid manifest.

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
    const { findings, fed } = await validateFolder(await readFolder(values.file, values['state-dir'], output))
    output.printError(findings.map(formatFinding).join(''))
    const carried = fed.filter(({ snapshot }) => snapshot.resources.size > 0)
    // Of a folder without anything the first type stands for all.
    const shown = carried.length > 0 ? carried : fed.slice(0, 1)
    if (format === 'table') output.print(shown.map(overview).join('\n'))
    else {
      const documents = shown.map(one => render(messagesOf(one), format))
      output.print(documents.join(format === 'yaml' ? '---\n' : ''))
    }
    return carried.length > 0 ? exitCodes.ok : exitCodes.wrong
  },
}

function overview({ snapshot }: FedSnapshot): string {
  const rows = Array.from(snapshot.resources.values(), ({ name, bytes, hash }) => [
    name,
    `${bytes.length}`,
    hash,
  ])
  return `version ${snapshot.version}\n${renderTable(['RESOURCE', 'BYTES', 'HASH'], rows)}`
}

function messagesOf({ snapshot, show }: FedSnapshot) {
  const { version, typeUrl, resources } = snapshot
  return { version, typeUrl, resources: Array.from(resources.values(), ({ bytes }) => show(bytes)) }
}
