/** The folder for the state of an operator on this machine, unless another one is given. */
export const defaultStateDir = '.tollway'

/** The environment variable that sets another state folder for every command. */
export const stateDirVariable = 'TOLLWAY_STATE_DIR'

/** Returns the state folder for commands without an option for it. */
export const readStateDir = (env: NodeJS.ProcessEnv): string => env[stateDirVariable] || defaultStateDir
