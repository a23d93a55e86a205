import { type Command, exitCodes } from '@tollway/chassis/command-line/command.ts'
import { parseWithSource } from '@tollway/chassis/command-line/parse-options.ts'
import { isOurs } from '../../kinds/registry.ts'
import { type FolderContent, folderSource } from '../read-folder.ts'
import { render } from '../render.ts'
import type { SourceOf } from '../run-program.ts'
import { outputOption } from '../shared-options.ts'
import { formatDiagnostic, validateFolder } from '../validate-folder.ts'

const own = { output: outputOption() }

export const createValidate = (source: SourceOf<FolderContent>): Command => ({
  name: 'validate',
  summary: 'report every problem in a folder of manifests',
  options: { ...source.options, ...own },
  help: {
    usage: ['[-f FOLDER] [-o table|yaml|json]'],
    description: `\
Validates every manifest in FOLDER, or one file, and reports all problems, each with its file, its field, the
value found and the values allowed. The operator and the API server use the same validation. A valid setting
that is probably a mistake is reported as a warning.`,
    exitCodes:
      '0 when all resources are valid, 1 with a problem or without a resource, 2 when FOLDER cannot be read.',
    examples: ['tollway validate -f examples/quickstart', 'tollway validate -f limits.yaml -o json'],
  },
  async run(args, output) {
    const { values, sourceValues } = parseWithSource(args, own, source.options)
    const format = values.output
    const content = await source.open(sourceValues, output)
    const { diagnostics } = await validateFolder(content)
    const isWrong = diagnostics.some(({ severity }) => severity === 'error')
    if (format !== 'table') output.print(render(diagnostics, format))
    else {
      output.print(diagnostics.map(formatDiagnostic).join(''))
      const { length } = content.resources.filter(isOurs)
      if (!isWrong) output.print(`${length} ${length === 1 ? 'resource' : 'resources'}, no problem\n`)
    }
    return isWrong ? exitCodes.wrong : exitCodes.ok
  },
})

export const validateCommand = createValidate(folderSource)
