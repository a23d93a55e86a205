import packageJson from './package.json' with { type: 'json' }

/** The version of Tollway: that of each of its packages. */
export const version: string = packageJson.version
