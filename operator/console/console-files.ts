import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The files of the console, without the HTML document. */
export interface ConsoleFiles {
  /** The files by their paths below /console/. */
  readonly files: ReadonlyMap<string, Buffer>
  /** The path below /console/ of the module that runs first. */
  readonly entry: string
  /** The import map: the paths of modules by the names under which they are imported; empty for a bundle. */
  readonly imports: Readonly<Record<string, string>>
}

/** The module for browsers of each package. */
const packages = {
  preact: 'preact',
  'preact/hooks': 'preact/hooks',
  '@preact/signals': '@preact/signals',
  '@preact/signals-core': '@preact/signals-core',
  htm: 'htm',
  uplot: 'uplot/dist/uPlot.esm.js',
  'js-yaml': 'js-yaml/browser',
}

/** The style sheet of uPlot. A container image has it beside the bundle. */
export const plotStyles = 'uplot.css'

/** The bundle that a container image has instead of the sources. */
const bundleEntry = 'main.js'

/** Reads the bundle of a container image or, where there is none, the sources. */
export function readConsoleFiles(): ConsoleFiles {
  const folder = fileURLToPath(new URL('browser/', import.meta.url))
  return existsSync(join(folder, bundleEntry)) ? readBundle(folder) : readSources(folder)
}

function readBundle(folder: string): ConsoleFiles {
  const files = readdirSync(folder).map((name): [string, Buffer] => [name, readFileSync(join(folder, name))])
  return { files: new Map(files), entry: bundleEntry, imports: {} }
}

/** The modules that the page shares with the commands, as paths in the folder of the operator. */
const sharedModules = [
  'api/deadlines.ts',
  'api/entries.ts',
  'api/read-events.ts',
  'api/replay-bounds.ts',
  'yaml.ts',
]

/**
 * Reads the sources. Modules keep their paths in the folder of the operator, because they import each other
 * by relative paths.
 */
function readSources(folder: string): ConsoleFiles {
  const files = new Map<string, Buffer>()
  for (const path of globSync('*.{css,svg}', { cwd: folder }))
    files.set(path, readFileSync(join(folder, path)))
  const modules = globSync('**/*.ts', { cwd: folder }).map(path => join('console/browser', path))
  for (const path of [...modules, ...sharedModules])
    files.set(path, withoutTypes(readFileSync(join(folder, '../..', path), 'utf8')))
  const imports: Record<string, string> = {}
  for (const [name, file] of Object.entries(packages)) {
    const path = `modules/${name.replaceAll(/[@/]/g, '-')}.js`
    files.set(path, readFileSync(resolveFile(file)))
    imports[name] = `/console/${path}`
  }
  files.set(plotStyles, readFileSync(resolveFile('uplot/dist/uPlot.min.css')))
  return { files, entry: 'console/browser/main.ts', imports }
}

/** Node warns that this feature may change. The installation fixes the version of Node. */
function withoutTypes(source: string): Buffer {
  const { emitWarning } = process
  process.emitWarning = () => {}
  try {
    return Buffer.from(stripTypeScriptTypes(source))
  } finally {
    process.emitWarning = emitWarning
  }
}

const resolveFile = (specifier: string) => fileURLToPath(import.meta.resolve(specifier))
