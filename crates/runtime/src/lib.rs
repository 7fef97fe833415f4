//! Durable execution of agents: RunCtx, tools, agents and the runtime that drives them.
