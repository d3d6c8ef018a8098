use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(mesh = grid, out = [Shard(0)])]
fn f(mesh: &DeviceMesh) -> Result<Tensor> {
    Tensor::ones(mesh.size(), candle_core::DType::F32, &candle_core::Device::Cpu)
}

fn main() {}
