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

/** Creates the option of the output format. @param first the default */
export function outputOption(first: Format = 'table', without?: Format) {
  const others = formats.filter(format => format !== first && format !== without)
  const shown = others.length > 1 ? `${others.slice(0, -1).join(', ')} or ${others.at(-1)}` : `${others[0]}`
  return {
    ...choice([first, ...others], {
      short: 'o',
      placeholder: 'FORMAT',
      help: `${first} (default)${others.length > 1 ? ',' : ' or'} ${shown}`,
    }),
    shownFallback: '',
  }
}

export const stateDirOption = {
  ...textOr(readStateDir(process.env), {
    placeholder: 'DIR',
    help: 'the state folder of the operator on this machine',
    completion: aFolder,
  }),
  shownFallback: `$${stateDirVariable}, or ${defaultStateDir}`,
}

/** The options of every command that reads manifests. */
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

/** The option for the entries of exactly one descriptor. */
export const entryOption = optionalText({
  short: 'e',
  placeholder: 'LIST',
  help: `the keys and values of the descriptor. ${spelling}`,
})

/** The option for the descriptors of a request; it may be repeated. */
export const entriesOption = texts({
  short: 'e',
  placeholder: 'LIST',
  help: `the keys and values of a descriptor; repeat it for each one. ${spelling}`,
})
