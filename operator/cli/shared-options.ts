import {
  aDomain,
  aFile,
  aFolder,
  choice,
  optionalText,
  textOr,
  texts,
} from '@tollway/chassis/command-line/option.ts'
import { defaultStateDir, readStateDir, stateDirVariable } from '../environments/host/state-dir.ts'
import { type Format, formats } from './render.ts'

/** @param first the default */
export function outputOption(first: Format = 'table') {
  return outputOptionOf([first, ...formats.filter(format => format !== first)])
}

/** @param names the first is the default */
export function outputOptionOf<const Name extends string>(names: readonly [Name, ...Name[]]) {
  const [first, ...others] = names
  const help = `${first} (default), ${others.slice(0, -1).join(', ')} or ${others.at(-1)}`
  return { ...choice(names, { short: 'o', placeholder: 'FORMAT', help }), shownFallback: '' }
}

export const stateDirOption = {
  ...textOr(readStateDir(process.env), {
    placeholder: 'DIR',
    help: 'the state folder of the operator on this machine',
    completion: aFolder,
  }),
  shownFallback: `$${stateDirVariable}, or ${defaultStateDir}`,
}

export const folderOptions = {
  file: optionalText({
    short: 'f',
    placeholder: 'FOLDER',
    help: 'the folder or file of manifests (default: that of the operator on this machine)',
    completion: aFile,
  }),
  'state-dir': stateDirOption,
}

export const domainOption = optionalText({
  short: 'd',
  placeholder: 'DOMAIN',
  help: 'the domain of the request',
  completion: aDomain,
})

const spelling = 'Write a comma in a value as \\,, a backslash as \\\\, and = in a key as %3D'

export const entryOption = optionalText({
  short: 'e',
  placeholder: 'LIST',
  help: `the keys and values of the descriptor. ${spelling}`,
})

export const entriesOption = texts({
  short: 'e',
  placeholder: 'LIST',
  help: `the keys and values of a descriptor; repeat it for each one. ${spelling}`,
})
