import { type Command, exitCodes } from '@tollway/chassis/command-line/command.ts'
import { parseOptions } from '@tollway/chassis/command-line/parse-options.ts'
import { readFolder } from '../read-folder.ts'
import { render, renderTable } from '../render.ts'
import { folderOptions, outputOption } from '../shared-options.ts'
import { formatDiagnostic, type PublishedSnapshot, validateFolder } from '../validate-folder.ts'

const options = { ...folderOptions, output: outputOption('yaml') }

export const translateCommand: Command = {
  name: 'translate',
  summary: 'print the content of the feed for manifests',
  options,
  help: {
    usage: ['[-f FOLDER] [-o yaml|json|table]'],
    description: `\
Prints the content of the feed for the manifests in FOLDER: for each type with resources, its version and its
messages. Invalid resources are reported and omitted. Without -f it prints the current feed of the operator on
this machine, which has the last good version of an invalid manifest.`,
    exitCodes: '0 when the feed has a resource, 1 when it is empty, 2 when FOLDER cannot be read.',
    examples: ['tollway translate -f examples/quickstart', 'tollway translate -f limits.yaml -o table'],
  },
  async run(args, output) {
    const { values } = parseOptions(args, options)
    const format = values.output
    const { diagnostics, published } = await validateFolder(
      await readFolder(values.file, values['state-dir'], output),
    )
    output.printError(diagnostics.map(formatDiagnostic).join(''))
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
