import type { Arguments, Command, CommandAction, Group } from '@tollway/chassis/command-line/command.ts'
import type { Completion, Option, Options } from '@tollway/chassis/command-line/option.ts'

interface Suggestions {
  readonly candidates: readonly Candidate[]
  /** What the shell suggests itself. */
  readonly paths?: 'file' | 'folder'
}

interface Candidate {
  readonly text: string
  readonly description?: string
}

interface CompletedProgram {
  readonly commands: Readonly<Record<string, () => Promise<Command>>>
  /** `given` has the texts of the options that precede. */
  readonly suggestNames: (
    completion: Completion,
    given: ReadonlyMap<string, string>,
  ) => Promise<readonly string[]>
}

/**
 * Resolves with the suggestions for the last word, which may be empty.
 *
 * @param words the words after the name of the program
 */
export async function completeWords(
  words: readonly string[],
  program: CompletedProgram,
): Promise<Suggestions> {
  const [name = '', ...rest] = words
  if (rest.length === 0) return suggest(name, [...(await listCommands(program)), help])
  // `help` is followed by the name of a command, as in `help run`.
  if (name === 'help') return rest.length > 1 ? nothing : suggest(rest[0] ?? '', await listCommands(program))
  const load = Object.hasOwn(program.commands, name) ? program.commands[name] : undefined
  return load === undefined ? nothing : completeAction(rest, await load(), program)
}

async function completeAction(
  words: readonly string[],
  command: CommandAction | Group,
  program: CompletedProgram,
): Promise<Suggestions> {
  if (!('subcommands' in command)) return completeArguments(words, command, program)
  const { subcommands } = command
  const [name = '', ...rest] = words
  if (rest.length === 0) return suggest(name, [...Object.keys(subcommands).map(toCandidate), help])
  const chosen = Object.hasOwn(subcommands, name) ? subcommands[name] : undefined
  return chosen === undefined ? nothing : completeAction(rest, chosen, program)
}

const nothing: Suggestions = { candidates: [] }
const help: Candidate = { text: '--help', description: 'show usage, options and examples' }
const toCandidate = (text: string): Candidate => ({ text })

async function listCommands({ commands }: CompletedProgram): Promise<readonly Candidate[]> {
  const all = await Promise.all(Object.values(commands).map(load => load()))
  return all.map(({ name, summary }) => ({ text: name, description: summary }))
}

function suggest(start: string, candidates: readonly Candidate[], paths?: Suggestions['paths']) {
  const found = candidates.filter(({ text }) => text.startsWith(start))
  return { candidates: found, ...(paths !== undefined && { paths }) }
}

async function completeArguments(
  args: readonly string[],
  { options, operands }: Arguments,
  program: CompletedProgram,
): Promise<Suggestions> {
  const current = args.at(-1) ?? ''
  const { given, awaiting } = readOptionTexts(args.slice(0, -1), options)
  if (awaiting !== undefined) return completeValue(awaiting.completion, current, '', given, program)
  const [, name = '', start = ''] = /^--([^=]+)=(.*)$/s.exec(current) ?? []
  const inline = Object.hasOwn(options, name) ? options[name] : undefined
  if (inline !== undefined) return completeValue(inline.completion, start, `--${name}=`, given, program)
  if (current.startsWith('-') || (current === '' && operands === undefined)) {
    const left = Object.entries(options).filter(([each, { repeats }]) => repeats || !given.has(each))
    const candidates = left.map(([each, option]) => ({ text: `--${each}`, description: option.help }))
    return suggest(current, [...candidates, help])
  }
  return operands === undefined ? nothing : completeValue(operands, current, '', given, program)
}

/** `awaiting` is the last option if its value is the next word. */
function readOptionTexts(args: readonly string[], options: Options) {
  const given = new Map<string, string>()
  let awaiting: Option | undefined
  let awaited = ''
  for (const arg of args) {
    if (awaiting !== undefined) {
      given.set(awaited, arg)
      awaiting = undefined
      continue
    }
    const [, name, value] = /^--([^=]+)(?:=(.*))?$/s.exec(arg) ?? [undefined, shortName(arg, options)]
    const option = name !== undefined && Object.hasOwn(options, name) ? options[name] : undefined
    if (name === undefined || option === undefined) continue
    if (value !== undefined || option.placeholder === '') given.set(name, value ?? '')
    else [awaiting, awaited] = [option, name]
  }
  return { given, awaiting }
}

function shortName(arg: string, options: Options): string | undefined {
  return Object.entries(options).find(([, { short }]) => short !== undefined && arg === `-${short}`)?.[0]
}

async function completeValue(
  completion: Completion,
  start: string,
  prefix: string,
  given: ReadonlyMap<string, string>,
  program: CompletedProgram,
): Promise<Suggestions> {
  if (completion.kind === 'file' || completion.kind === 'folder')
    return { candidates: [], paths: completion.kind }
  const names =
    completion.kind === 'values' ? completion.values : await program.suggestNames(completion, given)
  return suggest(
    `${prefix}${start}`,
    names.map(name => ({ text: `${prefix}${name}` })),
  )
}

const maxDescription = 80

/**
 * Returns the format of Cobra, which kubectl reads: a line for each candidate, with its description after a
 * tab, and a directive: the shell adds files (`:0`), folders (`:16`) or nothing (`:4`).
 */
export function formatSuggestions({ candidates, paths }: Suggestions): string {
  const lines = candidates.map(({ text, description }) => {
    if (description === undefined || description === '') return text
    const isLong = description.length > maxDescription
    return `${text}\t${isLong ? `${description.slice(0, maxDescription - 1)}…` : description}`
  })
  const directive = paths === 'file' ? 0 : paths === 'folder' ? 16 : 4
  return [...lines, `:${directive}`].map(line => `${line}\n`).join('')
}
