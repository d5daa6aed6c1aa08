mod genesis;
mod stakes;
