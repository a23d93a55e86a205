import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { runCaptured } from '../../../test/support/run-captured.ts'
import { type Command, UsageError } from './command.ts'
import { optionalText } from './option.ts'
import { parseOptions } from './parse-options.ts'
import { executeCommand } from './run-command.ts'

const format = optionalText({ placeholder: 'FORMAT', help: 'the format' })
const action = (name: string) => ({
  options: { format },
  async run(args: readonly string[], output: { print(text: string): void }) {
    const { values } = parseOptions(args, { format })
    if (values.format === 'broken') throw new Error('the disk is full')
    if (values.format === 'xml') throw new UsageError('--format xml: must be json')
    output.print(`${name}\n`)
    return 0
  },
})
const command: Command = {
  name: 'streams',
  summary: 'streams',
  subcommands: {
    list: action('list'),
    watch: action('watch'),
    dispute: { subcommands: { win: action('win'), lose: action('lose') } },
  },
  help: {
    usage: ['list'],
    description: 'Streams.',
    exitCodes: '0 done.',
    examples: ['tollway streams list'],
  },
}

function run(line: string) {
  const args = line.split(' ').filter(arg => arg !== '')
  return runCaptured(output => executeCommand(command, 'tollway streams', args, output))
}

describe('a command with subcommands', () => {
  const advice = "Run 'tollway streams --help' for usage.\n"
  for (const [line, expected] of [
    ['list', { code: 0, out: 'list\n', err: '' }],
    ['dispute win', { code: 0, out: 'win\n', err: '' }],
    ['', { code: 2, out: '', err: `tollway streams: missing subcommand: list, watch or dispute\n${advice}` }],
    [
      '--format json',
      { code: 2, out: '', err: `tollway streams: missing subcommand: list, watch or dispute\n${advice}` },
    ],
    [
      'lsit',
      {
        code: 2,
        out: '',
        err: `tollway streams: unknown subcommand "lsit" (did you mean "list"?)\n${advice}`,
      },
    ],
    [
      'toString',
      {
        code: 2,
        out: '',
        err: `tollway streams: unknown subcommand "toString": must be list, watch or dispute\n${advice}`,
      },
    ],
    ['dispute', { code: 2, out: '', err: `tollway streams: missing subcommand: win or lose\n${advice}` }],
    [
      'list --format xml',
      { code: 2, out: '', err: `tollway streams: --format xml: must be json\n${advice}` },
    ],
    ['list --format broken', { code: 2, out: '', err: 'tollway streams: the disk is full\n' }],
  ] as const)
    test(`answers "${line}"`, async () => assert.deepEqual(await run(line), expected))

  test('prints its help with the options of all subcommands', async () => {
    const { code, out } = await run('list --help')
    assert.equal(code, 0)
    assert.match(out, /^Usage: tollway streams list\n\nStreams\.\n\n {2}--format FORMAT {2}the format\n/)
  })
})
