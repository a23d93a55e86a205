import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'

/** The module with which a page begins. A folder that contains it is a page for browsers. */
export const pageEntry = 'main.ts'

export interface PageBundle {
  /** The name and the content of each file, sorted by name. */
  readonly files: readonly (readonly [string, Uint8Array])[]
  /** The source files in the bundle, as paths relative to the root. */
  readonly inputs: readonly string[]
}

const assets = ['icon.svg', 'style.css']
const plotStyles = 'node_modules/uplot/dist/uPlot.min.css'

export async function bundlePage(root: string, folder: string): Promise<PageBundle> {
  const made = await build({
    absWorkingDir: root,
    entryPoints: [join(folder, pageEntry)],
    outfile: join(folder, 'main.js'),
    write: false,
    bundle: true,
    minify: true,
    metafile: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2024',
    legalComments: 'none',
    logLevel: 'silent',
  })
  if (made.warnings.length > 0) throw new Error(made.warnings.map(({ text }) => text).join('\n'))
  const [script] = made.outputFiles
  if (script === undefined) throw new Error(`${folder} has no bundle`)
  return {
    files: [
      ...assets.map((name): [string, Uint8Array] => [name, readFileSync(join(folder, name))]),
      ['main.js', script.contents],
      ['uplot.css', readFileSync(join(root, plotStyles))],
    ],
    inputs: Object.keys(made.metafile.inputs),
  }
}
